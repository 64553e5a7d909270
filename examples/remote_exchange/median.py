"""The rule of median.toml in Python, without Troupe's library: python3 median.py RESULTS"""
import array, collections, ctypes, ctypes.util, hashlib, hmac, json, os, pathlib, socket, struct, sys

isal = ctypes.CDLL(ctypes.util.find_library("isal"))  # has CRC-32C, and is installed where Troupe is
isal.crc32_iscsi.argtypes, isal.crc32_iscsi.restype = [ctypes.c_char_p, ctypes.c_int, ctypes.c_uint], ctypes.c_uint
HEADER = struct.Struct("<4sHBBBBBxIQIIQQIIqqqdQQI")  # docs/protocol.md has the fields; a checksum of these follows
HELLO, PART, CREDIT, CONTROL, ACTORS, WINDOW = 1, 2, 4, 7, 2, 2 << 20


def crc32c(data):
    return isal.crc32_iscsi(data, len(data), 0xFFFFFFFF) ^ 0xFFFFFFFF


class Run:
    def __init__(self, results, name):
        entrance = json.loads((pathlib.Path(results) / "actors.json").read_text())
        host, port = entrance["address"].rsplit(":", 1)
        self.line = socket.create_connection((host.strip("[]"), int(port)))
        self.bytes, self.parts, self.over, self.credit = self.line.makefile("rb"), collections.deque(), False, 0
        ours = os.urandom(32)
        self.line.sendall(b"TROUPE-G" + ours)
        theirs, proof = self.bytes.read(32), self.bytes.read(32)
        proves = lambda who: hmac.digest(bytes.fromhex(entrance["secret"]), who + ours + theirs, hashlib.sha256)
        assert hmac.compare_digest(proof, proves(b"accepted")), "this is not the run"
        greeting = {"protocol": 1, "name": name, "as": "member"}
        self.line.sendall(proves(b"dialled ") + json.dumps(greeting).encode() + b"\n")
        answer = json.loads(self.bytes.readline())
        self.place = answer.get("exchange") or sys.exit(answer["refused"])
        self.send(HELLO, bytes(16), place=ACTORS, total=WINDOW)

    def send(self, kind, payload=b"", encoding=0, what=0, at=0, step=0, place=0, total=0, samples=0, elements=0):
        cost = -(-len(payload) // 4096) * 4096 if kind != HELLO else 0
        while cost and self.credit < min(cost, self.window * 3 // 4):
            self.take()
        self.credit -= cost
        header = HEADER.pack(b"TTRP", 10, kind, encoding, elements > 0, what, at, 0, self.place["run"],
                             self.place["members"], 0, step, 0, place, 0, 0, total, samples, 1.0, elements, len(payload),
                             crc32c(payload))
        self.line.sendall(header + struct.pack("<I", crc32c(header)) + payload)

    def take(self):
        header = HEADER.unpack((self.bytes.read(112) or sys.exit("the run is lost"))[:108])
        kind, sender, step, total, size = header[2], header[9], header[11], header[16], header[20]
        payload = self.bytes.read(size)
        if kind in (HELLO, CREDIT):
            self.credit += total
            self.window = total if kind == HELLO else self.window  # a hello comes first
        elif kind == PART:
            self.parts.append((step, sender, array.array("f", payload)))
        elif kind == CONTROL:
            said = json.loads(payload)
            self.over = "over" in said
            if "state" in said:
                self.send(CONTROL, json.dumps({"stateless": said["state"]}).encode())
        if size and kind != HELLO:
            self.send(CREDIT, total=-(-size // 4096) * 4096)

    def answer(self, step, values):
        what = {"parameters": 0, "gradient": 1}[self.place["sends"]]
        self.send(PART, values.tobytes(), encoding=1, what=what, at=2, step=step, samples=1, total=len(values),
                  elements=len(values))


run, steps = Run(sys.argv[1], "median"), collections.defaultdict(list)
while not run.over:
    while run.parts:
        step, member, values = run.parts.popleft()
        steps[step].append(values)
        if len(steps[step]) == run.place["members"]:
            low, high = (run.place["members"] - 1) // 2, run.place["members"] // 2
            ordered = map(sorted, zip(*steps.pop(step)))
            run.answer(step, array.array("f", ((values[low] + values[high]) / 2 for values in ordered)))
    run.take()
