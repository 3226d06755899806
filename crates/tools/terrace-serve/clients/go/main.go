// go-redis: caches, queues, locks, subscribes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"
)

func is(got, wanted any, err error) {
	if err != nil || !reflect.DeepEqual(got, wanted) {
		panic(fmt.Sprintf("%v (%v), not %v", got, err, wanted))
	}
}

func main() {
	ctx := context.Background()
	for _, protocol := range []int{2, 3} {
		r := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol})
		is(r.FlushAll(ctx).Val(), "OK", nil)
		is(r.Set(ctx, "page", "text", 100*time.Second).Val(), "OK", nil)
		page, err := r.Get(ctx, "page").Result()
		is(page, "text", err)
		is(r.SetNX(ctx, "page", "x", 0).Val(), false, nil)
		is(errors.Is(r.Get(ctx, "nothing").Err(), redis.Nil), true, nil)
		is(r.HSet(ctx, "user", "name", "Ann", "age", 7).Val(), int64(2), nil)
		user, err := r.HGetAll(ctx, "user").Result()
		is(user, map[string]string{"name": "Ann", "age": "7"}, err)
		// A counter by optimistic transactions, from many at once.
		done := make(chan error)
		for i := 0; i < 8; i++ {
			go func() {
				for {
					err := r.Watch(ctx, func(tx *redis.Tx) error {
						n, err := tx.Get(ctx, "n").Int()
						if err != nil && !errors.Is(err, redis.Nil) {
							return err
						}
						_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
							p.Set(ctx, "n", n+1, 0)
							return nil
						})
						return err
					}, "n")
					if !errors.Is(err, redis.TxFailedErr) {
						done <- err
						return
					}
				}
			}()
		}
		for i := 0; i < 8; i++ {
			is(nil, nil, <-done)
		}
		n, err := r.Get(ctx, "n").Int()
		is(n, 8, err)
		// A queue.
		go func() { r.RPush(ctx, "queue", "x") }()
		got, err := r.BLPop(ctx, 30*time.Second, "queue").Result()
		is(got, []string{"queue", "x"}, err)
		// A lock.
		release := redis.NewScript("if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end")
		is(r.SetNX(ctx, "lock", "mine", time.Minute).Val(), true, nil)
		released, err := release.Run(ctx, r, []string{"lock"}, "other").Int()
		is(released, 0, err)
		released, err = release.Run(ctx, r, []string{"lock"}, "mine").Int()
		is(released, 1, err)
		// Channels.
		p := r.Subscribe(ctx, "news")
		_, err = p.Receive(ctx)
		is(r.Publish(ctx, "news", "hello").Val(), int64(1), err)
		heard, err := p.ReceiveMessage(ctx)
		is(heard.Payload, "hello", err)
		p.Close()
		// Sorted sets, streams, scans.
		r.ZAdd(ctx, "z", redis.Z{Score: 1, Member: "a"}, redis.Z{Score: 2.5, Member: "b"})
		z, err := r.ZRangeWithScores(ctx, "z", 0, -1).Result()
		is(z, []redis.Z{{Score: 1, Member: "a"}, {Score: 2.5, Member: "b"}}, err)
		id, err := r.XAdd(ctx, &redis.XAddArgs{Stream: "x", Values: map[string]any{"f": "v"}}).Result()
		entries, err2 := r.XRange(ctx, "x", "-", "+").Result()
		is(entries[0].ID, id, errors.Join(err, err2))
		for i := 0; i < 300; i++ {
			r.Set(ctx, fmt.Sprint("key:", i), i, 0)
		}
		seen := map[string]bool{}
		for keys := r.Scan(ctx, 0, "key:*", 50).Iterator(); keys.Next(ctx); {
			seen[keys.Val()] = true
		}
		is(len(seen), 300, nil)
		r.Close()
		fmt.Printf("go-redis, protocol %d: well\n", protocol)
	}
}
