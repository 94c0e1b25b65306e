/* hiredis. An error is a reply of type REDIS_REPLY_ERROR; a lost connection is NULL. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "failed: %s\n", what);
    exit(1);
}

static long long at(const redisReply *reply, size_t i) { return reply->element[i]->integer; }

int main(void) {
    redisContext *c = redisConnect("127.0.0.1", atoi(getenv("RL_PORT")));
    check(c && !c->err, "connection");

    /* A charge, and the check of it. */
    redisReply *reply = redisCommand(c, "RL.FIXED %s 5 60s", "user:1");
    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY) {
        fprintf(stderr, "%s\n", reply ? reply->str : c->errstr); /* an error is not a denial */
        return 1;
    }
    int allowed = reply->element[0]->integer == 1;
    long long retry_ms = reply->element[2]->integer;
    if (!allowed) printf("retry_ms %lld\n", retry_ms);
    long long right[] = {1, 4, 0, 60000, 5, 0};
    check(reply->elements == 6, "six integers");
    for (size_t i = 0; i < 6; i++) check(at(reply, i) == right[i], "charge");
    freeReplyObject(reply);

    /* A denial is a reply like any other. */
    reply = redisCommand(c, "RL.FIXED user:1 5 60s COST 5");
    check(at(reply, 0) == 0 && at(reply, 2) > 0 && at(reply, 2) <= 60000, "denial");
    freeReplyObject(reply);

    /* Several rules: the six, and one row for each rule. */
    reply = redisCommand(c, "RL.CHARGE sms:138 SLIDE 1 60s SLIDE 5 1h");
    check(reply->elements == 7 && at(reply, 0) == 1, "RL.CHARGE");
    check(at(reply->element[6]->element[0], 4) == 1 && at(reply->element[6]->element[1], 4) == 5, "rows");
    freeReplyObject(reply);

    /* Several keys. */
    reply = redisCommand(c, "RL.MCHARGE 2 %s %s SLIDE 9 60s SLIDE 5 60s", "{u1}:ip", "{u1}:user");
    check(reply->elements == 7 && at(reply, 1) == 4 && reply->element[6]->elements == 2, "RL.MCHARGE");
    freeReplyObject(reply);

    /* An error reply. */
    reply = redisCommand(c, "RL.TOKEN user:1 0 1");
    check(reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "capacity"), "error");
    check(reply->elements == 0, "an error has no elements to read");
    freeReplyObject(reply);

    /* A pipeline. */
    int costs[] = {1, 0, 1, 1}, allowed_by_turn[] = {1, -1, 1, 0};
    for (int i = 0; i < 4; i++) redisAppendCommand(c, "RL.TOKEN job 2 1 COST %d", costs[i]);
    for (int i = 0; i < 4; i++) {
        check(redisGetReply(c, (void **)&reply) == REDIS_OK, "pipeline");
        check((reply->type == REDIS_REPLY_ERROR ? -1 : at(reply, 0)) == allowed_by_turn[i], "pipeline");
        freeReplyObject(reply);
    }

    redisFree(c);
    printf("version %d.%d.%d\n", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
    puts("error: a reply of type REDIS_REPLY_ERROR");
    return 0;
}
