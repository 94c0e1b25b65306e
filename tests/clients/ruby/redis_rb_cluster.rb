# redis-rb's cluster mode (built into 4.x; from 5.0 on in the gem redis-clustering). It looks names up in the server's
# table, which is in lower case: RL.CHARGE is unknown to it and goes to any node, rl.charge goes to its own.
require "redis"

def check(ok, seen) = ok || raise(seen.inspect)

nodes = ENV["RL_CLUSTER"].split(",").map { |port| "redis://127.0.0.1:#{port}" }
redis = Redis.new(cluster: nodes)

30.times do |i|
  reply = redis.call("rl.fixed", "user:#{i}", 5, "60s")
  check(reply == [1, 4, 0, 60000, 5, 0], reply)
  reply = redis.call("rl.charge", "sms:#{i}", *%w[SLIDE 1 60s SLIDE 5 1h])
  check(reply[0] == 1 && reply[6].size == 2, reply)
  reply = redis.call("rl.mcharge", 2, "{u#{i}}:ip", "{u#{i}}:user", *%w[SLIDE 9 60s SLIDE 5 60s])
  check(reply[0] == 1 && reply[6].size == 2, reply)
end

reply = redis.call("rl.fixed", "user:1", 5, "60s", "COST", 5)
check(reply[0] == 0 && reply[2] > 0, reply)

[["rl.token", "user:1", 0, 1], ["RL.MCHARGE", 2, "a", "b", *%w[SLIDE 9 60s SLIDE 5 60s]]].each do |bad|
  redis.call(*bad)
  check(false, "no error")
rescue Redis::BaseError => e
  puts "note: #{bad[0]} #{e.class} #{e.message}"
end

# A pipeline goes to one node: its keys share a slot.
replies = redis.pipelined { |pipe| 3.times { pipe.call("rl.token", "job", 2, 1) } }
check(replies.map(&:first) == [1, 1, 0], replies)

puts "version #{Redis::VERSION}"
