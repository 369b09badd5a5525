// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A plugin for QEMU: holds one processor of the guest at one instruction of the kernel until
 * another one has done what it is to do meanwhile. So a race of two processors has one end.
 *
 *	at=ADDRESS	the instruction, hex; it has not run yet
 *	pass=N		how often the processor comes by before
 *	out=FILE	gets a line for each that was waited for
 *
 * Programs of the guest say when by instructions that do nothing; see programs/hold.h.
 * A processor that waits for what does not come goes on after half a minute.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of QEMU's interface, what this takes; its versions differ in two of these. */
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint64_t qemu_plugin_id_t;
typedef void (*on_execution)(unsigned int cpu, void *data);

#if ABI < 7
typedef void (*on_translation)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, on_translation call);
#else
typedef void (*on_translation)(struct qemu_plugin_tb *tb, void *data);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, on_translation call, void *data);
#endif
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, on_execution call,
					    int flags, void *data);
#if ABI < 3
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
#else
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t size);
#endif

#define EXPORT __attribute__((visibility("default")))
#define SECONDS 30

EXPORT int qemu_plugin_version = ABI;

/* nopl 0x505700NN(%rax), but for its last number. */
static const unsigned char sign[] = { 0x0f, 0x1f, 0x80 }, mark[] = { 0x00, 0x57, 0x50 };

enum word { NONE, NEXT, AWAIT, LET };

static uint64_t at;
static long pass;
static const char *out;

static atomic_int held = -1;		/* which processor is to be held */
static atomic_long passed;
static atomic_bool reached, let_go;

static void say(const char *what, bool came)
{
	FILE *file = fopen(out, "a");

	if (file) {
		fprintf(file, "%s %s\n", what, came ? "came" : "did not come");
		fclose(file);
	}
}

static void await(const char *what, atomic_bool *flag)
{
	struct timespec tick = { .tv_nsec = 1000000 };
	int ticks = SECONDS * 1000;

	while (!atomic_load(flag) && ticks--)
		nanosleep(&tick, NULL);
	say(what, atomic_load(flag));
}

static void on_place(unsigned int cpu, void *data)
{
	if (atomic_load(&held) != (int)cpu || atomic_fetch_add(&passed, 1) != pass)
		return;
	atomic_store(&reached, true);
	await("let", &let_go);
}

static void on_word(unsigned int cpu, void *data)
{
	switch ((enum word)(uintptr_t)data) {
	case NEXT:
		atomic_store(&held, cpu);
		break;
	case AWAIT:
		await("place", &reached);
		break;
	case LET:
		atomic_store(&let_go, true);
		break;
	default:
		break;
	}
}

static enum word word_of(const struct qemu_plugin_insn *insn)
{
	unsigned char bytes[7];

	if (qemu_plugin_insn_size(insn) != sizeof(bytes))
		return NONE;
#if ABI < 3
	memcpy(bytes, qemu_plugin_insn_data(insn), sizeof(bytes));
#else
	if (qemu_plugin_insn_data(insn, bytes, sizeof(bytes)) != sizeof(bytes))
		return NONE;
#endif
	if (memcmp(bytes, sign, sizeof(sign)) || memcmp(bytes + 4, mark, sizeof(mark)))
		return NONE;
	return bytes[3];
}

static void look_at(struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);

	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		enum word word = word_of(insn);

		if (qemu_plugin_insn_vaddr(insn) == at)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_place, 0, NULL);
		else if (word != NONE)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_word, 0,
							       (void *)(uintptr_t)word);
	}
}

#if ABI < 7
static void on_block(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	look_at(tb);
}
#else
static void on_block(struct qemu_plugin_tb *tb, void *data)
{
	look_at(tb);
}
#endif

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "at=", 3))
			at = strtoull(argv[i] + 3, NULL, 16);
		else if (!strncmp(argv[i], "pass=", 5))
			pass = atol(argv[i] + 5);
		else if (!strncmp(argv[i], "out=", 4))
			out = strdup(argv[i] + 4);
		else
			return -1;
	}
	if (!out)
		return -1;
#if ABI < 7
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_block);
#else
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_block, NULL);
#endif
	return 0;
}
