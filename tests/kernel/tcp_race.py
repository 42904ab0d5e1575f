"""Opens connections with hand-made packets, the last of which arrives twice at the same instant.

Options (JSON): interface; source, destination: address and MAC of the made-up client and of the
server; port; connections.  Two processes on two CPUs each send the packet that ends the handshake.
No client's kernel would do that: it sends one packet after the other.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import struct
import sys
import time

ETHERTYPE_IPV4 = 0x0800
SYN, RST, ACK, SYN_ACK = 0x02, 0x04, 0x10, 0x12
FIRST_PORT = 20_000
FIRST_SEQUENCE = 1000
LIMIT_S = 60


def checksum(data: bytes) -> int:
    words: tuple[int, ...] = struct.unpack(f"!{len(data) // 2}H", data)
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Client:
    """A host that exists only as packets."""

    def __init__(self, options: dict[str, str | int]) -> None:
        self.link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE_IPV4))
        self.link.bind((options["interface"], ETHERTYPE_IPV4))
        self.link.settimeout(LIMIT_S)
        source, destination = (
            (socket.inet_aton(str(options[f"{end}_address"])),
             bytes.fromhex(str(options[f"{end}_mac"]).replace(":", "")))
            for end in ("source", "destination")
        )  # fmt: skip
        self.addresses = source[0] + destination[0]
        self.ethernet = destination[1] + source[1] + struct.pack("!H", ETHERTYPE_IPV4)
        self.port = int(options["port"])

    def packet(self, port: int, flags: int, sequence: int, ack: int, data: bytes = b"") -> bytes:
        tcp = struct.pack("!HHIIBBHHH", port, self.port, sequence, ack, 5 << 4, flags, 512, 0, 0)
        pseudo = self.addresses + struct.pack("!HH", socket.IPPROTO_TCP, len(tcp) + len(data))
        total = checksum(pseudo + tcp + data + b"\0" * (len(data) % 2))
        tcp = tcp[:16] + struct.pack("!H", total) + tcp[18:]
        length = 20 + len(tcp) + len(data)
        ip = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0, 64, socket.IPPROTO_TCP, 0)
        ip = ip[:10] + struct.pack("!H", checksum(ip + self.addresses)) + self.addresses
        return self.ethernet + ip + tcp + data

    def answers(self, ports: range, times: int) -> dict[int, int]:
        """Wait for that many SYN-ACKs to each port; return the server's first sequence numbers."""
        seen = dict.fromkeys(ports, 0)
        sequences = {}
        deadline = time.monotonic() + LIMIT_S
        while min(seen.values()) < times:
            assert time.monotonic() < deadline
            frame = self.link.recv(2048)
            local, port, sequence = struct.unpack_from("!HHI", frame, 34)
            if local == self.port and frame[47] == SYN_ACK and port in seen:
                seen[port] += 1
                sequences[port] = sequence
        return sequences


def race(client: Client, packets: list[bytes], meeting: mmap.mmap, me: int) -> None:
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[me]})
    for number, packet in enumerate(packets, 1):
        meeting[me] = number
        while meeting[1 - me] < number:  # spin: a lock would wake one of them too late
            pass
        client.link.send(packet)


def main() -> None:
    options = json.loads(sys.argv[1])
    ports = range(FIRST_PORT, FIRST_PORT + int(options["connections"]))
    client = Client(options)
    for port in ports:
        client.link.send(client.packet(port, SYN, FIRST_SEQUENCE, 0))
    sequences = client.answers(ports, times=2)
    last = [
        client.packet(port, ACK, FIRST_SEQUENCE + 1, sequences[port] + 1 & 0xFFFFFFFF, b"x")
        for port in ports
    ]
    meeting = mmap.mmap(-1, 2)
    child = os.fork()
    race(client, last, meeting, int(child == 0))
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    for port in ports:
        client.link.send(client.packet(port, RST, FIRST_SEQUENCE + 2, 0))
    print("done", flush=True)


main()
