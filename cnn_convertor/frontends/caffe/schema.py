"""Caffe's messages, made at run time from descriptors, so that any version of protobuf works."""

from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SKIPPED = "cnn_convertor.caffe.Skipped"


@cache
def message_type(name: str) -> Any:
    """The class of one of the schema's messages, for example "NetParameter"."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"cnn_convertor.caffe.{name}"))


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(Path(__file__).with_name("caffe.binpb").read_bytes()).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def is_repeated(field: Any) -> bool:
    """Whether a field holds a list; protobuf 7 and 4.25 have different names for it."""
    answer = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if answer is None else answer)


def values(message: Any) -> dict[str, Any]:
    """The fields that the message sets: lists as tuples, enum values as their names."""
    return {field.name: value_of(message, field) for field, _ in message.ListFields()}


def value_of(message: Any, field: Any) -> Any:
    """A field's value, or its default."""
    value = getattr(message, field.name)
    if field.enum_type is None:
        return tuple(value) if is_repeated(field) else value
    names = field.enum_type.values_by_number
    return tuple(names[number].name for number in value) if is_repeated(field) else names[value].name
