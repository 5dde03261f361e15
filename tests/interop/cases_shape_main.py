# SPDX-License-Identifier: Apache-2.0
"""shape_main as the OMG's interoperability test drives it: command lines in, terminal output judged.

Each case starts publishers and subscribers with the test's options, lets them run for a few seconds and
ends them with SIGINT. What they printed is parsed back, so a change of a line's form fails here too.
"""

import collections
import os
import re
import signal
import time

from lib.process import Failure
from lib.runner import case, expect
from lib.world import Paths, World

SAMPLE = re.compile(r"^(\S+) +(\S+) +(-?\d{3,}) (-?\d{3,}) \[(\d+)\](?: \{(\d+)\})?$")
STATE = re.compile(r"^(\S+) +(\S+) +NOT_ALIVE_(NO_WRITERS|DISPOSED)_INSTANCE_STATE$")
ROUND = re.compile(r"^Reading (coherent sets|with ordered access), iteration \d+$")
Line = collections.namedtuple("Line", "topic color x y size extra")


class Shape:
    """One running shape_main."""

    def __init__(self, world, words, host="a"):
        program = os.path.join(Paths.build, "tools", "shape_main", "shape_main")
        if not os.access(program, os.X_OK):
            raise Failure(f"not built: {program}")
        self.process = world.start([program] + words.split(), words[:2] + " " + words[3:40],
                                   host)

    def end(self, code=0):
        """SIGINT must end it in order."""
        if self.process.child.poll() is None:
            self.process.child.send_signal(signal.SIGINT)
        self.process.wait(10, code)

    @property
    def lines(self):
        self.process.poll_events()
        return [event["text"] for event in self.process.events if "text" in event]

    @property
    def samples(self):
        return [Line(found[1], found[2], int(found[3]), int(found[4]), int(found[5]),
                     int(found[6]) if found[6] else None)
                for found in map(SAMPLE.match, self.lines) if found]

    @property
    def states(self):
        return {(found[1], found[2]): found[3] for found in map(STATE.match, self.lines) if found}

    @property
    def rounds(self):
        """The samples of each read round, with coherent or ordered access."""
        rounds = [[]]
        for line in self.lines:
            if ROUND.match(line):
                rounds.append([])
            elif SAMPLE.match(line):
                found = SAMPLE.match(line)
                rounds[-1].append(Line(found[1], found[2], int(found[3]), int(found[4]),
                                       int(found[5]), None))
        return [one for one in rounds if one]

    def saw(self, text):
        return any(line.startswith(text) for line in self.lines)

    def wait(self, text, timeout_s=15):
        self.process.wait_event(lambda event: event.get("text", "").startswith(text), text, timeout_s)

    def wait_samples(self, count, timeout_s=20):
        deadline = time.monotonic() + timeout_s
        while len(self.samples) < count:
            expect(time.monotonic() < deadline,
                   f"{self.process.name}: {len(self.samples)} of {count} samples; {self.lines[-5:]}")
            time.sleep(0.05)


def sizes(samples, color=None, topic=None):
    return [line.size for line in samples
            if color in (None, line.color) and topic in (None, line.topic)]


def consecutive(values):
    return all(b == a + 1 for a, b in zip(values, values[1:]))


def increasing(values):
    return all(a < b for a, b in zip(values, values[1:]))


# ---- pairs that communicate, that are incompatible, that do not concern each other ------------------

COMMUNICATE = {
    "defaults": ("-t Square", "-t Square"),
    "best-effort": ("-t Square -b", "-t Square -b"),
    "best-effort-reader": ("-t Square -r", "-t Square -b"),
    "xcdr2": ("-t Square -x 2", "-t Square -x 2"),
    "domain": ("-t Square -d 3", "-t Square -d 3"),
    "color": ("-t Square -c RED", "-t Square -c RED"),
    "partition": ("-t Square -p robots", "-t Square -p robots"),
    "partition-wildcard": ("-t Square -p robots", "-t Square -p r*"),
    "deadline-offered-shorter": ("-t Square -f 2000", "-t Square -f 5000"),
    "durability-offered-more": ("-t Square -D l", "-t Square -D v"),
    "exclusive": ("-t Square -s 3", "-t Square -s 0"),
    "keep-all": ("-t Square -k 0", "-t Square -k 0"),
    "take-read": ("-t Square", "-t Square --take-read"),
    "read": ("-t Square", "-t Square -R"),
    "scope-more": ("-t Square --access-scope g --coherent --ordered",
                   "-t Square --access-scope t"),
    "announcement": ("-t Square --periodic-announcement 500", "-t Square"),
}

INCOMPATIBLE = {
    "reliability": ("-t Square -b", "-t Square -r"),
    "durability": ("-t Square -D v", "-t Square -D l"),
    "deadline": ("-t Square -f 5000", "-t Square -f 2000"),
    "ownership": ("-t Square -s 3", "-t Square -s -1"),
    "ownership-shared": ("-t Square -s -1", "-t Square -s 3"),
    "representation": ("-t Square -x 1", "-t Square -x 2"),
    "representation-2": ("-t Square -x 2", "-t Square -x 1"),
    "coherent": ("-t Square --access-scope t", "-t Square --access-scope t --coherent"),
    "ordered": ("-t Square --access-scope t", "-t Square --access-scope t --ordered"),
    "scope": ("-t Square --access-scope i", "-t Square --access-scope g"),
}

APART = {
    "topic": ("-t Square", "-t Circle"),
    "domain": ("-t Square -d 1", "-t Square -d 2"),
    "partition": ("-t Square -p robots", "-t Square -p planes"),
    "color": ("-t Square -c RED", "-t Square -c BLUE"),
}


def communicate(pub_words, sub_words):
    with World() as world:
        sub, pub = Shape(world, "-S " + sub_words), Shape(world, "-P -w " + pub_words)
        sub.wait("on_subscription_matched()")
        pub.wait("on_publication_matched()")
        sub.wait_samples(5)
        pub.end()
        sub.end()
        written = set(pub.samples)
        expect(all(line in written for line in sub.samples), "a sample that was never written")
        expect(not pub.saw("on_offered_incompatible") and not sub.saw("on_requested_incompatible"),
               "incompatible QoS reported")


def incompatible(pub_words, sub_words):
    with World() as world:
        sub, pub = Shape(world, "-S " + sub_words), Shape(world, "-P " + pub_words)
        sub.wait("on_requested_incompatible_qos()")
        pub.wait("on_offered_incompatible_qos()")
        pub.end()
        sub.end()
        expect(not sub.samples, "samples in spite of incompatible QoS")
        expect(not pub.saw("on_publication_matched"), "matched in spite of incompatible QoS")


def apart(pub_words, sub_words):
    with World() as world:
        sub, pub = Shape(world, "-S " + sub_words), Shape(world, "-P -w " + pub_words)
        pub.wait_samples(60)
        pub.end()
        sub.end()
        expect(not sub.samples, "samples that were not asked for")
        expect(not pub.saw("on_offered_incompatible") and not sub.saw("on_requested_incompatible"),
               "incompatible QoS reported")


for _name, _words in COMMUNICATE.items():
    case("shape/communicate-" + _name)(lambda words=_words: communicate(*words))
for _name, _words in INCOMPATIBLE.items():
    case("shape/incompatible-" + _name)(lambda words=_words: incompatible(*words))
for _name, _words in APART.items():
    case("shape/apart-" + _name)(lambda words=_words: apart(*words))


# ---- what each policy does --------------------------------------------------------------------------

@case("shape/reliable-in-order")
def reliable():
    with World() as world:
        sub = Shape(world, "-S -t Square -r -k 0")
        pub = Shape(world, "-P -t Square -r -k 0 -z 0 -w --write-period 2")
        sub.wait_samples(300)
        pub.end()
        sub.end()
        expect(consecutive(sizes(sub.samples)), f"gap or disorder: {sizes(sub.samples)[:40]}")


@case("shape/instances-and-topics")
def many():
    with World() as world:
        sub = Shape(world, "-S -t Square --num-topics 3")
        pub = Shape(world, "-P -t Square --num-topics 3 --num-instances 4 -c RED")
        wanted = {(topic, color) for topic in ("Square", "Square1", "Square2")
                  for color in ("RED", "RED1", "RED2", "RED3")}
        deadline = time.monotonic() + 15
        while {line[:2] for line in sub.samples} != wanted and time.monotonic() < deadline:
            time.sleep(0.1)
        pub.end()
        sub.end()
        expect({line[:2] for line in sub.samples} == wanted, "not every topic and instance")
        expect(sum(line.startswith("Create topic: ") for line in sub.lines) == 3, "Create topic lines")


@case("shape/late-joiner-gets-the-last-three")
def durability():
    with World() as world:
        pub = Shape(world, "-P -t Square -D l -k 3 -z 0 -w --num-iterations 200 --write-period 50")
        pub.wait_samples(20)
        sub = Shape(world, "-S -t Square -D l -k 0")
        sub.wait_samples(10)
        pub.end()
        sub.end()
        got = sizes(sub.samples)
        expect(got[0] > 10 and consecutive(got), f"not the last ones, then the live ones: {got[:12]}")


@case("shape/deadline")
def deadline_missed():
    with World() as world:
        sub = Shape(world, "-S -t Square -f 300")
        pub = Shape(world, "-P -t Square -f 300 --write-period 1000")
        sub.wait("on_requested_deadline_missed()")
        pub.wait("on_offered_deadline_missed()")
        pub.end()
        sub.end()


@case("shape/deadline-kept")
def deadline_kept():
    with World() as world:
        sub = Shape(world, "-S -t Square -f 3000")
        pub = Shape(world, "-P -t Square -f 3000 --write-period 100")
        sub.wait_samples(40)
        expect(not sub.saw("on_requested_deadline_missed"), "deadline missed")
        expect(not pub.saw("on_offered_deadline_missed"), "deadline missed")
        pub.end()
        sub.end()


@case("shape/ownership")
def ownership():
    with World() as world:
        sub = Shape(world, "-S -t Square -s 0 -r -k 0 --read-period 20")
        weak = Shape(world, "-P -t Square -s 3 -z 20 --write-period 40")
        sub.wait_samples(10)
        strong = Shape(world, "-P -t Square -s 4 -z 30 --write-period 40")
        deadline = time.monotonic() + 15
        while 30 not in sizes(sub.samples) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1.0)
        strong.end()
        expect(30 in sizes(sub.samples), "nothing of the stronger writer")
        before = len(sub.samples)
        sub.wait_samples(before + 10)
        weak.end()
        sub.end()
        got = sizes(sub.samples)
        first, last = got.index(30), len(got) - 1 - got[::-1].index(30)
        expect(set(got[first:last + 1]) == {30}, "the weaker writer between samples of the stronger")
        expect(got[-1] == 20 and got[0] == 20, "the weaker writer does not own before and after")


@case("shape/ownership-by-instance")
def ownership_keys():
    """A stronger writer of one color owns nothing else."""
    with World() as world:
        sub = Shape(world, "-S -t Square -s 0 -r -k 0")
        weak = Shape(world, "-P -t Square -s 3 -c BLUE")
        strong = Shape(world, "-P -t Square -s 9 -c RED")
        deadline = time.monotonic() + 15
        while {line.color for line in sub.samples[-6:]} != {"BLUE", "RED"} and \
                time.monotonic() < deadline:
            time.sleep(0.05)
        expect({line.color for line in sub.samples[-6:]} == {"BLUE", "RED"}, "one color is missing")
        for process in (weak, strong, sub):
            process.end()


@case("shape/time-filter")
def time_filter():
    with World() as world:
        sub = Shape(world, "-S -t Square -k 0 --time-filter 300 --read-period 20")
        pub = Shape(world, "-P -t Square -z 0 --write-period 30")
        sub.wait_samples(6)
        pub.end()
        sub.end()
        steps = [b - a for a, b in zip(sizes(sub.samples), sizes(sub.samples)[1:])]
        expect(min(steps) >= 8, f"samples closer than the minimum separation: {steps}")


@case("shape/lifespan")
def lifespan():
    with World() as world:
        sub = Shape(world, "-S -t Square -k 0 --read-period 1000")
        pub = Shape(world, "-P -t Square -k 0 -z 0 --lifespan 200 --write-period 40")
        sub.wait_samples(8)
        pub.end()
        sub.end()
        steps = [b - a for a, b in zip(sizes(sub.samples), sizes(sub.samples)[1:])]
        expect(max(steps) >= 10, "nothing expired between two rounds of reading")


@case("shape/final-states")
def final_states():
    for letter, state in (("u", "NO_WRITERS"), ("d", "DISPOSED")):
        with World() as world:
            sub = Shape(world, "-S -t Square")
            pub = Shape(world, "-P -t Square -c RED --num-instances 2 --final-instance-state " + letter)
            sub.wait_samples(4)
            pub.end()
            deadline = time.monotonic() + 10
            while len(sub.states) < 2 and time.monotonic() < deadline:
                time.sleep(0.05)
            sub.end()
            expect(sub.states == {("Square", "RED"): state, ("Square", "RED1"): state},
                   f"-{letter}: {sub.states}")


@case("shape/killed-writer-leaves-no-writers")
def killed():
    with World() as world:
        sub = Shape(world, "-S -t Square")
        pub = Shape(world, "-P -t Square -c RED")
        sub.wait_samples(4)
        pub.end()
        deadline = time.monotonic() + 10
        while not sub.states and time.monotonic() < deadline:
            time.sleep(0.05)
        sub.end()
        expect(sub.states == {("Square", "RED"): "NO_WRITERS"}, f"{sub.states}")


@case("shape/filter")
def filters():
    with World() as world:
        sub = Shape(world, "-S -t Square -k 0 --cft shapesize<=10")
        pub = Shape(world, "-P -t Square -k 0 -z 0 --size-modulo 40 -w --write-period 5")
        expect(sub.process is not None, "started")
        sub.wait_samples(25)
        pub.end()
        sub.end()
        expect(max(sizes(sub.samples)) <= 10, "a sample that the filter rejects")
        expect(max(sizes(pub.samples)) == 40, "--size-modulo")
        expect("Create reader for topic: Square_filtered" in sub.lines, "the filtered topic's line")


@case("shape/filter-invalid")
def filter_invalid():
    with World() as world:
        sub = Shape(world, "-S -t Square --cft size<")
        sub.process.wait(10, code=1)
        expect("failed to create content filtered topic" in sub.lines, f"{sub.lines}")


@case("shape/large")
def large():
    with World() as world:
        sub = Shape(world, "-S -t Square -k 0")
        pub = Shape(world, "-P -t Square -k 0 -z 0 --additional-payload-size 100000 --write-period 20")
        sub.wait_samples(20)
        pub.end()
        sub.end()
        expect(all(line.extra == 255 for line in sub.samples), "the extra member's last byte")
        expect(consecutive(sizes(sub.samples)), "gap or disorder")


# ---- presentation ------------------------------------------------------------------------------------

@case("shape/coherent-topic")
def coherent_topic():
    """Sets of 3 rounds of 2 instances: a round of reading shows whole sets."""
    with World() as world:
        sub = Shape(world, "-S -t Square -k 0 --coherent --access-scope t --read-period 50")
        pub = Shape(world, "-P -t Square -k 0 -z 0 --coherent --access-scope t --num-instances 2 "
                           "--coherent-sample-count 3 --write-period 30")
        sub.wait_samples(30)
        pub.end()
        sub.end()
        counts = [len(one) for one in sub.rounds]
        expect(all(count % 6 == 0 for count in counts[1:-1]), f"sets cut: {counts}")
        expect(sub.saw("Reading coherent sets, iteration"), "the round's line")


@case("shape/coherent-group")
def coherent_group():
    """With group scope a set spans the publisher's topics."""
    with World() as world:
        sub = Shape(world, "-S -t Square -k 0 --coherent --access-scope g --num-topics 2 "
                           "--read-period 50")
        pub = Shape(world, "-P -t Square -k 0 -z 0 --coherent --access-scope g --num-topics 2 "
                           "--coherent-sample-count 4 --write-period 30")
        sub.wait_samples(32)
        pub.end()
        sub.end()
        for one in sub.rounds[1:-1]:
            by_topic = collections.Counter(line.topic for line in one)
            expect(by_topic["Square"] == by_topic["Square1"] and by_topic["Square"] % 4 == 0,
                   f"a set cut: {by_topic}")


@case("shape/ordered-topic")
def ordered_topic():
    """Ordered access: samples of all instances in the order written."""
    with World() as world:
        sub = Shape(world, "-S -t Square -k 0 --ordered --access-scope t --take-read")
        pub = Shape(world, "-P -t Square -k 0 -z 0 -w --ordered --access-scope t --num-instances 3 "
                           "--write-period 20")
        sub.wait_samples(60)
        pub.end()
        sub.end()
        written = [(line.color, line.size) for line in pub.samples]
        got = [(line.color, line.size) for line in sub.samples]
        at = written.index(got[0])
        expect(got == written[at:at + len(got)], "not in the order written")


@case("shape/ordered-group")
def ordered_group():
    """With group scope samples of a publisher's topics come in the order written."""
    with World() as world:
        sub = Shape(world, "-S -t Square -k 0 -r --ordered --access-scope g --num-topics 2 --take-read "
                           "--read-period 50")
        pub = Shape(world, "-P -t Square -k 0 -r -z 0 -w --ordered --access-scope g --num-topics 2 "
                           "--write-period 20")
        sub.wait_samples(60)
        pub.end()
        sub.end()
        written = [(line.topic, line.size) for line in pub.samples]
        got = [(line.topic, line.size) for line in sub.samples]
        # What was written before both topics had matched may be there for one only.
        at = max(written.index(next(one for one in got if one[0] == topic))
                 for topic in ("Square", "Square1"))
        got = [one for one in got if written.index(one) >= at]
        expect(len(got) > 30 and got == written[at:at + len(got)], f"not as written: {got[:8]}")


def whole_sets(sub, topic_count, size):
    for one in sub.rounds[1:-1]:
        by_topic = collections.Counter(line.topic for line in one)
        expect(len(by_topic) == topic_count and len(set(by_topic.values())) == 1 and
               all(count % size == 0 for count in by_topic.values()), f"a set cut: {by_topic}")


@case("shape/coherent-with-loss")
def coherent_loss():
    """A tenth of the packets is lost: sets stay whole, and none is missing."""
    with World(two_hosts=True, loss=10) as world:
        sub = Shape(world, "-S -t Square -k 0 -r --coherent --access-scope g --num-topics 2 "
                           "--read-period 50", "b")
        pub = Shape(world, "-P -t Square -k 0 -r -z 0 --coherent --access-scope g --num-topics 2 "
                           "--coherent-sample-count 4 --write-period 30")
        sub.wait_samples(32)
        pub.end()
        sub.end()
        whole_sets(sub, 2, 4)
        for topic in ("Square", "Square1"):
            expect(consecutive(sizes(sub.samples, topic=topic)), "a set is missing")


@case("shape/coherent-killed-and-late")
def coherent_killed():
    """A reader that joins in the middle of a set, and a writer killed there: whole sets only."""
    with World() as world:
        pub = Shape(world, "-P -t Square -k 0 -r -D l -z 0 -w --coherent --access-scope t "
                           "--coherent-sample-count 10 --write-period 40")
        pub.wait_samples(15)
        sub = Shape(world, "-S -t Square -k 0 -r -D l --coherent --access-scope t --read-period 50")
        sub.wait_samples(20)
        while len(pub.samples) % 10 < 4:
            time.sleep(0.02)
        pub.process.kill()
        time.sleep(0.7)
        sub.end()
        got = sizes(sub.samples)
        expect(len(got) % 10 == 0 and consecutive(got), f"a cut set: {got}")


# ---- with the peers' shape programs, and refusals ----------------------------------------------------

def with_peer(peer):
    with World() as world:
        sub = Shape(world, "-S -t Square -k 0")
        pub = world.pub(peer, "Square", count=50, rate=100, matched=1, keep_all=True)
        sub.wait_samples(50)
        pub.finish(code=None)
        sub.end()
        expect([line.x for line in sub.samples] == list(range(1, 51)), "samples of " + peer)


for _peer in ("cyclone", "fastdds"):
    case(f"shape/{_peer}-to-shape_main")(lambda peer=_peer: with_peer(peer))


REFUSED = ("", "-P", "-P -S -t Square", "-P -t Square -x 3", "-P -t Square -s -2", "-P -t Square -k x",
           "-P -t Square --nonsense", "-P -t Square extra", "-S -t Square -D q", "-P -t Square -d 233",
           "-P -t Square --cft x>1", "-S -t Square --access-scope", "-P -t Square -z -1",
           "-S -t Square -c RED --cft x>1")


@case("shape/refused-command-lines")
def refused():
    with World() as world:
        for words in REFUSED:
            program = Shape(world, words)
            program.process.wait(5, code=1)
            expect(program.process.errors.startswith("shape_main: "), f"no complaint about '{words}'")
        program = Shape(world, "-P -t Square -D p")
        program.process.wait(5, code=1)
        expect(program.saw("PERSISTENT durability not supported"), "persistent is not refused")
        shown = Shape(world, "--help")
        shown.process.wait(5, code=0)
        expect(shown.saw("Usage: shape_main"), "--help")
