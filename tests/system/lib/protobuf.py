"""Protocol buffers, read by nothing but the format's own description. Whatever is not as described is an
AssertionError.

The fields of a message are a table, number -> (name, type). A type is a message's table, or of: double, float, int,
text, bytes, doubles (packed); in a list: the field may be repeated, and its value is a list.
"""
import struct

from harness import expect, expect_equal


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def message(data, fields):
    """{name: value} of an encoded message."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        expect(key >> 3 in fields, "field %d is unknown among %s" % (key >> 3, fields))
        name, kind = fields[key >> 3]
        repeated = isinstance(kind, list)
        if repeated:
            kind, = kind
        if kind in ("double", "float"):
            size, wire = (8, 1) if kind == "double" else (4, 5)
            value, at = struct.unpack_from("<" + kind[0], data, at)[0], at + size
        elif kind == "int":
            (value, at), wire = varint(data, at), 0
        else:
            size, at = varint(data, at)
            expect(at + size <= len(data), "%s is cut" % name)
            value, at, wire = data[at:at + size], at + size, 2
            if isinstance(kind, dict):
                value = message(value, kind)
            elif kind == "text":
                value = value.decode("utf-8")
            elif kind == "doubles":
                value = list(struct.unpack("<%dd" % (size // 8), value))
        expect_equal(key & 7, wire, "the wire type of " + name)
        if repeated:
            found.setdefault(name, []).append(value)
        else:
            expect(name not in found, name + " is there twice")
            found[name] = value
    return found
