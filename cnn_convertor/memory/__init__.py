"""Where buffers lie: lifetimes in, offsets out; knows nothing of networks or devices."""

from cnn_convertor.memory.planning import Buffer, Peak, Plan, plan

__all__ = ["Buffer", "Peak", "Plan", "plan"]
