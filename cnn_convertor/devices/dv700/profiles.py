"""The devices of the family."""

from __future__ import annotations

from cnn_convertor.devices.dv700.device import Device
from cnn_convertor.devices.dv700.fusion.costs import command_cost
from cnn_convertor.devices.dv700.fusion.levels import ALLOWED
from cnn_convertor.devices.dv700.limits import Limits
from cnn_convertor.devices.dv700.rules import RULES

DV700 = Device("dv700", Limits(), RULES, ALLOWED, command_cost)
