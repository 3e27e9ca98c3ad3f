"""The report of a network: one frozen value, and views of it."""

from cnn_convertor.report.values import Report as Report
