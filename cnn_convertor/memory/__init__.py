"""Where buffers lie: lifetimes in, offsets out. And in which order things are done. Knows nothing of networks or devices."""

from cnn_convertor.memory.planning import NODES, Buffer, Peak, Plan, plan
from cnn_convertor.memory.scheduling import Schedule, Task, schedule

__all__ = ["NODES", "Buffer", "Peak", "Plan", "Schedule", "Task", "plan", "schedule"]
