// redigo. Do sends any command.
package main

import (
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/gomodule/redigo/redis"
)

func check(ok bool, seen ...interface{}) {
	if !ok {
		panic(fmt.Sprint(seen...))
	}
}

func main() {
	conn, err := redis.Dial("tcp", "127.0.0.1:"+os.Getenv("RL_PORT"))
	check(err == nil, err)
	defer conn.Close()

	// A charge, and the check of it.
	reply, err := redis.Int64s(conn.Do("RL.FIXED", "user:1", 5, "60s"))
	if err != nil {
		panic(err) // an error is not a denial
	}
	allowed, retryMs := reply[0] == 1, reply[2]
	if !allowed {
		fmt.Println("retry_ms", retryMs)
	}
	check(reflect.DeepEqual(reply, []int64{1, 4, 0, 60000, 5, 0}), reply)

	// A denial is a reply like any other.
	reply, err = redis.Int64s(conn.Do("RL.FIXED", "user:1", 5, "60s", "COST", 5))
	check(err == nil && reply[0] == 0 && reply[2] > 0 && reply[2] <= 60000, reply, err)

	// Several rules: the six, and one row for each rule.
	seven, err := redis.Values(conn.Do("RL.CHARGE", redis.Args{"sms:138"}.AddFlat(strings.Fields("SLIDE 1 60s SLIDE 5 1h"))...))
	check(err == nil && len(seven) == 7, seven, err)
	six, err := redis.Int64s(seven[:6], nil)
	check(err == nil && six[0] == 1, six, err)
	rows, err := redis.Values(seven[6], nil)
	check(err == nil && len(rows) == 2, rows, err)
	second, err := redis.Int64s(rows[1], nil)
	check(err == nil && second[4] == 5, second, err)

	// Several keys.
	seven, err = redis.Values(conn.Do("RL.MCHARGE",
		redis.Args{2, "{u1}:ip", "{u1}:user"}.AddFlat(strings.Fields("SLIDE 9 60s SLIDE 5 60s"))...))
	check(err == nil && len(seven) == 7 && seven[1] == int64(4), seven, err)

	// An error reply is an error of type redis.Error.
	_, err = redis.Int64s(conn.Do("RL.TOKEN", "user:1", 0, 1))
	_, isReply := err.(redis.Error)
	check(isReply && strings.Contains(err.Error(), "capacity"), err)

	// A pipeline.
	for _, cost := range []int{1, 0, 1, 1} {
		conn.Send("RL.TOKEN", "job", 2, 1, "COST", cost)
	}
	conn.Flush()
	var seen []int64
	for i := 0; i < 4; i++ {
		reply, err := redis.Int64s(conn.Receive())
		if err != nil {
			reply = []int64{-1}
		}
		seen = append(seen, reply[0])
	}
	check(reflect.DeepEqual(seen, []int64{1, -1, 1, 0}), seen)

	fmt.Println("error: an error of type redis.Error")
}
