// go-redis. Do sends any command.
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
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
	// A charge whose reply got lost may have been made: -1 does not send it twice.
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Getenv("RL_PORT"), MaxRetries: -1})
	defer rdb.Close()

	// A charge, and the check of it.
	reply, err := rdb.Do(ctx, "RL.FIXED", "user:1", 5, "60s").Int64Slice()
	if err != nil {
		panic(err) // an error is not a denial
	}
	allowed, retryMs := reply[0] == 1, reply[2]
	if !allowed {
		fmt.Println("retry_ms", retryMs)
	}
	check(reflect.DeepEqual(reply, []int64{1, 4, 0, 60000, 5, 0}), reply)

	// A denial is a reply like any other.
	reply, err = rdb.Do(ctx, "RL.FIXED", "user:1", 5, "60s", "COST", 5).Int64Slice()
	check(err == nil && reply[0] == 0 && reply[2] > 0 && reply[2] <= 60000, reply, err)

	// Several rules: the six, and one row for each rule.
	seven, err := rdb.Do(ctx, "RL.CHARGE", "sms:138", "SLIDE", 1, "60s", "SLIDE", 5, "1h").Slice()
	check(err == nil && len(seven) == 7 && seven[0] == int64(1), seven, err)
	rows := seven[6].([]interface{})
	check(len(rows) == 2 && rows[1].([]interface{})[4] == int64(5), rows)

	// Several keys.
	seven, err = rdb.Do(ctx, "RL.MCHARGE", 2, "{u1}:ip", "{u1}:user", "SLIDE", 9, "60s", "SLIDE", 5, "60s").Slice()
	check(err == nil && len(seven) == 7 && seven[1] == int64(4), seven, err)

	// An error reply is an error of type redis.Error.
	err = rdb.Do(ctx, "RL.TOKEN", "user:1", 0, 1).Err()
	_, isReply := err.(redis.Error)
	check(isReply && strings.Contains(err.Error(), "capacity"), err)

	// A pipeline. Exec answers the first error after all have run; each command holds its own.
	pipe := rdb.Pipeline()
	for _, cost := range []int{1, 0, 1, 1} {
		pipe.Do(ctx, "RL.TOKEN", "job", 2, 1, "COST", cost)
	}
	cmds, err := pipe.Exec(ctx)
	check(err != nil && strings.Contains(err.Error(), "cost"), err)
	var seen []int64
	for _, cmd := range cmds {
		reply, err := cmd.(*redis.Cmd).Int64Slice()
		if err != nil {
			reply = []int64{-1}
		}
		seen = append(seen, reply[0])
	}
	check(reflect.DeepEqual(seen, []int64{1, -1, 1, 0}), seen)

	fmt.Println("version", redis.Version())
	fmt.Println("error: an error of type redis.Error; a pipeline answers the first, each command holds its own")
}
