// go-redis' cluster client.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
)

func check(ok bool, seen ...interface{}) {
	if !ok {
		panic(fmt.Sprint(seen...))
	}
}

func main() {
	ctx := context.Background()
	var nodes []string
	for _, port := range strings.Split(os.Getenv("RL_CLUSTER"), ",") {
		nodes = append(nodes, "127.0.0.1:"+port)
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes})
	defer rdb.Close()

	for i := 0; i < 30; i++ {
		reply, err := rdb.Do(ctx, "RL.FIXED", fmt.Sprint("user:", i), 5, "60s").Int64Slice()
		check(err == nil && reply[0] == 1 && reply[1] == 4, reply, err)
		seven, err := rdb.Do(ctx, "RL.CHARGE", fmt.Sprint("sms:", i), "SLIDE", 1, "60s", "SLIDE", 5, "1h").Slice()
		check(err == nil && len(seven) == 7, seven, err)
		ip, user := fmt.Sprintf("{u%d}:ip", i), fmt.Sprintf("{u%d}:user", i)
		seven, err = rdb.Do(ctx, "RL.MCHARGE", 2, ip, user, "SLIDE", 9, "60s", "SLIDE", 5, "60s").Slice()
		check(err == nil && len(seven) == 7, seven, err)
	}

	reply, err := rdb.Do(ctx, "RL.FIXED", "user:1", 5, "60s", "COST", 5).Int64Slice()
	check(err == nil && reply[0] == 0 && reply[2] > 0, reply, err)

	err = rdb.Do(ctx, "RL.TOKEN", "user:1", 0, 1).Err()
	check(err != nil && strings.Contains(err.Error(), "capacity"), err)
	err = rdb.Do(ctx, "RL.MCHARGE", 2, "a", "b", "SLIDE", 9, "60s", "SLIDE", 5, "60s").Err()
	check(err != nil && strings.HasPrefix(err.Error(), "CROSSSLOT"), err)

	// A pipeline over all nodes.
	pipe := rdb.Pipeline()
	for i := 0; i < 30; i++ {
		pipe.Do(ctx, "RL.FIXED", fmt.Sprint("job:", i), 5, "60s")
	}
	cmds, err := pipe.Exec(ctx)
	check(err == nil && len(cmds) == 30, err)
	for _, cmd := range cmds {
		reply, err := cmd.(*redis.Cmd).Int64Slice()
		check(err == nil && reply[1] == 4, reply, err)
	}

	fmt.Println("version", redis.Version())
}
