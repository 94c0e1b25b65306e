# redis-rb. call sends any command.
require "redis"

def check(ok, seen) = ok || raise(seen.inspect)

redis = Redis.new(port: Integer(ENV["RL_PORT"]))

# A charge, and the check of it.
allowed, remaining, retry_ms, reset_ms, limit, delay_ms = redis.call("RL.FIXED", "user:1", 5, "60s")
puts "retry_ms #{retry_ms}" if allowed == 0
reply = [allowed, remaining, retry_ms, reset_ms, limit, delay_ms]
check(reply == [1, 4, 0, 60000, 5, 0], reply)

# A denial is a reply like any other. (0 is true in Ruby: compare.)
reply = redis.call("RL.FIXED", "user:1", 5, "60s", "COST", 5)
check(reply[0] == 0 && reply[2].between?(1, 60000), reply)

# Several rules: the six, and one row for each rule.
*six, rows = redis.call("RL.CHARGE", "sms:138", *%w[SLIDE 1 60s SLIDE 5 1h])
check(six.size == 6 && six[0] == 1 && rows.map { |row| row[4] } == [1, 5], [six, rows])

# Several keys.
*six, rows = redis.call("RL.MCHARGE", 2, "{u1}:ip", "{u1}:user", *%w[SLIDE 9 60s SLIDE 5 60s])
check(six.size == 6 && six[1] == 4 && rows.map { |row| row[4] } == [9, 5], [six, rows])

# An error reply raises.
begin
  redis.call("RL.TOKEN", "user:1", 0, 1)
  check(false, "no error")
rescue Redis::CommandError => e
  check(e.message.include?("capacity"), e)
end

# A pipeline raises the first error after all have run: their replies are lost. Without an error it is a list.
replies = redis.pipelined { |pipe| 3.times { pipe.call("RL.TOKEN", "job", 2, 1) } }
check(replies.map(&:first) == [1, 1, 0], replies)
begin
  redis.pipelined { |pipe| [1, 0, 1].each { |cost| pipe.call("RL.FIXED", "lost", 5, "60s", "COST", cost) } }
  check(false, "no error")
rescue Redis::CommandError => e
  check(redis.call("RL.FIXED", "lost", 5, "60s")[1] == 2, e)
end

puts "version #{Redis::VERSION}"
puts "error: raises Redis::CommandError; a pipeline raises the first after all have run"
