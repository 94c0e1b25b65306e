"""redis-py's cluster client."""
import os

import redis
from redis.cluster import RedisCluster
from redis.exceptions import RedisClusterException

r = RedisCluster("127.0.0.1", int(os.environ["RL_CLUSTER"].split(",")[0]))

for i in range(30):
    reply = r.execute_command("RL.FIXED", f"user:{i}", 5, "60s")
    assert reply == [1, 4, 0, 60000, 5, 0], reply
for i in range(30):
    *six, rows = r.execute_command("RL.CHARGE", f"sms:{i}", *"SLIDE 1 60s SLIDE 5 1h".split())
    assert six[0] == 1 and len(rows) == 2, (six, rows)
for i in range(30):
    keys = f"{{u{i}}}:ip", f"{{u{i}}}:user"
    *six, rows = r.execute_command("RL.MCHARGE", 2, *keys, *"SLIDE 9 60s SLIDE 5 60s".split())
    assert six[0] == 1 and len(rows) == 2, (six, rows)

reply = r.execute_command("RL.FIXED", "user:1", 5, "60s", "COST", 5)
assert reply[0] == 0 and reply[2] > 0, reply

for bad in ["RL.TOKEN", "user:1", 0, 1], ["RL.MCHARGE", 2, "a", "b", *"SLIDE 9 60s SLIDE 5 60s".split()]:
    try:
        r.execute_command(*bad)
        raise AssertionError("no error")
    except (redis.RedisError, RedisClusterException) as e:  # the second is not one of the first
        print("note:", bad[0], type(e).__name__, e)

# A pipeline over all nodes.
pipe = r.pipeline()
for i in range(4):
    pipe.execute_command("RL.FIXED", f"job:{i}", 5, "60s")
assert [reply[0] for reply in pipe.execute()] == [1, 1, 1, 1]

print("version", redis.__version__)
