"""Memory planning: live ranges in, offsets out; and scheduling for the least peak. Knows no networks or devices."""

from cnn_convertor.memory.buffer import Buffer
from cnn_convertor.memory.planning import NODES, Peak, Plan, plan
from cnn_convertor.memory.scheduling import Schedule, Task, grouped, schedule

__all__ = ["NODES", "Buffer", "Peak", "Plan", "Schedule", "Task", "grouped", "plan", "schedule"]
