"""tfevents.py: a strict reader of TensorBoard's event files, from the description of TFRecord and
of Protocol Buffers; it shares nothing with the writer."""
import struct


def crc32c(data):
    """Bit by bit: CRC-32/ISCSI, whose check value is that of b"123456789"."""
    c = 0xffffffff
    for byte in data:
        c ^= byte
        for _ in range(8):
            c = (c >> 1) ^ (0x82f63b78 if c & 1 else 0)
    return c ^ 0xffffffff


assert crc32c(b"123456789") == 0xe3069283


def masked(data):
    c = crc32c(data)
    return (((c >> 15) | (c << 17)) + 0xa282ead8) & 0xffffffff


def records(data):
    at = 0
    while at < len(data):
        length, crc = struct.unpack_from("<QI", data, at)
        if masked(data[at:at + 8]) != crc:
            raise ValueError(f"the length at {at} has another checksum")
        body = data[at + 12:at + 12 + length]
        if masked(body) != struct.unpack_from("<I", data, at + 12 + length)[0]:
            raise ValueError(f"the record at {at} has another checksum")
        at += 16 + length
        yield body


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """[(field, value)] of a message; of length-delimited ones bytes."""
    at, found = 0, []
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif key & 7 == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            if len(value) != size:
                raise ValueError("a field is longer than its message")
        elif key & 7 == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        else:
            raise ValueError(f"field {key >> 3} has the wire type {key & 7}")
        found.append((key >> 3, value))
    return found


def read(path):
    """(version, first step, [(step, wall time, {tag: value})])."""
    with open(path, "rb") as f:
        head, start, *rest = [dict(fields(x)) for x in records(f.read())]
    steps = []
    for event in rest:
        values = [dict(fields(x)) for number, x in fields(event[5]) if number == 1]
        steps.append((event[2], event[1], {x[1].decode(): x[2] for x in values}))
    assert dict(fields(start[7])) == {1: 1}, "no start of a session"
    return head[3].decode(), start[2], steps
