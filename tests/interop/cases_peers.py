# SPDX-License-Identifier: Apache-2.0
"""The harness itself: the peers between each other, and the loss that the namespaces promise.

If these fail, no other interop result means anything.
"""

import subprocess

import checks
from lib import capture
from lib.process import Failure
from lib.runner import case, equal, expect
from lib.world import VENDOR, World

for pair in (("cyclone", "fastdds"), ("fastdds", "cyclone")):
    def run(pair=pair):
        """1,000 reliable samples between the two vendors, and tshark sees both."""
        with World() as world:
            path = world.capture()
            sub = world.sub(pair[1], "Square", count=1000, timeout=25)
            pub = world.pub(pair[0], "Square", count=1000, matched=1, keep_all=True,
                            colors=("RED", "GREEN"), linger=1.5)
            # Cyclone ignores data before the first heartbeat (see the capture notes): order only, and on a
            # busy machine it waits for the first ones in vain.
            samples = sub.finish(code=0 if pair[0] == "cyclone" else None)
            pub.finish(code=None)
            world.stop_captures()
            checks.increasing(samples, 1 if pair[0] == "fastdds" else 1000)
            vendors = {message.vendor for message in capture.messages(path)}
            equal(vendors, {VENDOR["cyclone"], VENDOR["fastdds"]}, "vendors in the capture")
    case(f"peers/{pair[0]}-to-{pair[1]}")(run)


@case("peers/loss-is-real")
def loss_is_real():
    """With 30 % loss a reliable Cyclone pair still completes, and the counters show the loss."""
    with World(two_hosts=True, loss=30) as world:
        sub = world.sub("cyclone", "Square", count=300, timeout=60)
        pub = world.pub("cyclone", "Square", count=300, matched=1, keep_all=True, rate=500, timeout=60)
        checks.complete(sub.finish(), 300, ("RED",))
        pub.finish(code=None)
        rules = subprocess.run(world.prefix("b") + ["nft", "list", "ruleset"], capture_output=True,
                               text=True, check=True).stdout
        dropped = int(rules.split("counter packets ")[1].split()[0])
        expect(dropped > 50, f"only {dropped} datagrams were dropped")


@case("peers/a-failure-is-seen")
def failure_is_seen():
    """A subscriber without a writer times out with exit code 1, and the harness says so."""
    with World() as world:
        sub = world.sub("cyclone", "Nothing", count=1, timeout=1)
        try:
            sub.finish(10)
        except Failure as failure:
            expect("exit code 1, expected 0" in str(failure), str(failure))
        else:
            raise Failure("the harness saw success where there was none")
