// redisc, the cluster client on top of redigo.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
)

func check(ok bool, seen ...interface{}) {
	if !ok {
		panic(fmt.Sprint(seen...))
	}
}

func main() {
	var nodes []string
	for _, port := range strings.Split(os.Getenv("RL_CLUSTER"), ",") {
		nodes = append(nodes, "127.0.0.1:"+port)
	}
	cluster := redisc.Cluster{StartupNodes: nodes}
	defer cluster.Close()
	check(cluster.Refresh() == nil, "no cluster")

	// A connection belongs to one node: bind it to the key, or let RetryConn follow MOVED.
	charge := func(key string, command string, words ...interface{}) (interface{}, error) {
		conn := cluster.Get()
		defer conn.Close()
		if err := redisc.BindConn(conn, key); err != nil {
			return nil, err
		}
		return conn.Do(command, words...)
	}
	for i := 0; i < 30; i++ {
		key := fmt.Sprint("user:", i)
		reply, err := redis.Int64s(charge(key, "RL.FIXED", key, 5, "60s"))
		check(err == nil && reply[0] == 1 && reply[1] == 4, reply, err)
		key = fmt.Sprint("sms:", i)
		seven, err := redis.Values(charge(key, "RL.CHARGE", key, "SLIDE", 1, "60s", "SLIDE", 5, "1h"))
		check(err == nil && len(seven) == 7, seven, err)
		ip, user := fmt.Sprintf("{u%d}:ip", i), fmt.Sprintf("{u%d}:user", i)
		seven, err = redis.Values(charge(ip, "RL.MCHARGE", 2, ip, user, "SLIDE", 9, "60s", "SLIDE", 5, "60s"))
		check(err == nil && len(seven) == 7, seven, err)
	}

	reply, err := redis.Int64s(charge("user:1", "RL.FIXED", "user:1", 5, "60s", "COST", 5))
	check(err == nil && reply[0] == 0 && reply[2] > 0, reply, err)

	_, err = charge("user:1", "RL.TOKEN", "user:1", 0, 1)
	check(err != nil && strings.Contains(err.Error(), "capacity"), err)
	_, err = charge("a", "RL.MCHARGE", 2, "a", "b", "SLIDE", 9, "60s", "SLIDE", 5, "60s")
	check(err != nil && strings.HasPrefix(err.Error(), "CROSSSLOT"), err)

	// A pipeline goes to the node that its connection is bound to.
	conn := cluster.Get()
	defer conn.Close()
	check(redisc.BindConn(conn, "job") == nil, "bind")
	for i := 0; i < 3; i++ {
		conn.Send("RL.TOKEN", "job", 2, 1)
	}
	conn.Flush()
	for _, right := range []int64{1, 1, 0} {
		reply, err := redis.Int64s(conn.Receive())
		check(err == nil && reply[0] == right, reply, err)
	}
}
