"""redis-py. RL_PROTOCOL chooses RESP2 or RESP3: the replies are the same."""
import os

import redis

r = redis.Redis(port=int(os.environ["RL_PORT"]), protocol=int(os.environ["RL_PROTOCOL"]))

# A charge, and the check of it.
allowed, remaining, retry_ms, reset_ms, limit, delay_ms = r.execute_command("RL.FIXED", "user:1", 5, "60s")
if not allowed:
    print("retry_ms", retry_ms)
assert [allowed, remaining, retry_ms, reset_ms, limit, delay_ms] == [1, 4, 0, 60000, 5, 0]

# A denial is a reply like any other.
reply = r.execute_command("RL.FIXED", "user:1", 5, "60s", "COST", 5)
assert reply[0] == 0 and 0 < reply[2] <= 60000, reply

# Several rules: the six, and one row for each rule.
*six, rows = r.execute_command("RL.CHARGE", "sms:138", *"SLIDE 1 60s SLIDE 5 1h".split())
assert len(six) == 6 and six[0] == 1 and [row[4] for row in rows] == [1, 5], (six, rows)

# Several keys.
*six, rows = r.execute_command("RL.MCHARGE", 2, "{u1}:ip", "{u1}:user", *"SLIDE 9 60s SLIDE 5 60s".split())
assert len(six) == 6 and six[1] == 4 and [row[4] for row in rows] == [9, 5], (six, rows)

# An error reply raises.
try:
    r.execute_command("RL.TOKEN", "user:1", 0, 1)
    raise AssertionError("no error")
except redis.ResponseError as e:
    assert "capacity" in str(e), e

# A pipeline. With raise_on_error=False an error stands in its place in the list.
pipe = r.pipeline(transaction=False)
for cost in 1, 0, 1, 1:
    pipe.execute_command("RL.TOKEN", "job", 2, 1, "COST", cost)
first, error, second, third = pipe.execute(raise_on_error=False)
assert isinstance(error, redis.ResponseError), error
assert [first[0], second[0], third[0]] == [1, 1, 0]

print("version", redis.__version__)
print("error: raises redis.ResponseError; in a pipeline, with raise_on_error=False, an item of the list")
