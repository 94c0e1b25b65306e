/* A module that takes the names it is told: MODULE LOAD namesake.so NAME WORD, where WORD is a command
 * (with a dot) or a data type of nine letters. Built by refusal.rs, without the server's header. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct Ctx Ctx;
typedef struct Str Str;
typedef int (*Api)(const char *name, void *target);
typedef int (*Command)(Ctx *, Str **, int);

static int (*ReplyWithSimpleString)(Ctx *, const char *);

static int answer(Ctx *ctx, Str **argv, int argc) {
    (void)argv;
    (void)argc;
    return ReplyWithSimpleString(ctx, "namesake");
}

static void *load(void *io, int version) {
    (void)io;
    (void)version;
    return NULL;
}

static void save(void *io, void *value) {
    (void)io;
    (void)value;
}

int RedisModule_OnLoad(Ctx *ctx, Str **argv, int argc) {
    Api get = (Api)((void **)ctx)[0];
    void (*set_attribs)(Ctx *, const char *, int, int);
    const char *(*text)(const Str *, size_t *);
    int (*create_command)(Ctx *, const char *, Command, const char *, int, int, int);
    void *(*create_type)(Ctx *, const char *, int, void *);
    if (get("RedisModule_SetModuleAttribs", &set_attribs) || get("RedisModule_StringPtrLen", &text) ||
        get("RedisModule_CreateCommand", &create_command) || get("RedisModule_CreateDataType", &create_type) ||
        get("RedisModule_ReplyWithSimpleString", &ReplyWithSimpleString) || argc != 2)
        return 1;
    set_attribs(ctx, text(argv[0], NULL), 1, 1);
    const char *word = text(argv[1], NULL);
    if (strchr(word, '.')) return create_command(ctx, word, answer, "write", 0, 0, 0);
    /* Version 1 of the table of methods: rdb_load, rdb_save, aof_rewrite, mem_usage, digest, free. */
    static struct {
        uint64_t version;
        void *methods[16];
    } table;
    table.version = 1;
    table.methods[0] = (void *)load;
    table.methods[1] = (void *)save;
    return create_type(ctx, word, 0, &table) == NULL;
}
