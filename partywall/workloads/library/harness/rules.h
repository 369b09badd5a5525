/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tables of nf_tables for IPv4, by netlink: each change is a transaction of its own. */
#ifndef RULES_H
#define RULES_H

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include "links.h"

static inline void batch(int type)
{
	const struct nfgenmsg body = { .version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES) };

	message(type, 0, &body, sizeof(body));
}

static inline struct nlmsghdr *change_rules(int type, int flags)
{
	const struct nfgenmsg body = { .nfgen_family = NFPROTO_IPV4, .version = NFNETLINK_V0 };

	batch(NFNL_MSG_BATCH_BEGIN);
	return message(NFNL_SUBSYS_NFTABLES << 8 | type, flags | NLM_F_ACK, &body, sizeof(body));
}

/* Returns 0 or an errno. */
static inline int commit(void)
{
	batch(NFNL_MSG_BATCH_END);
	return answer();
}

/* Of a filter: packets pass it there, and it drops none. */
static inline void make_chain(const char *table, const char *name, unsigned int hook)
{
	const unsigned int where = htonl(hook), priority = 0;
	struct nlmsghdr *made = change_rules(NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL);
	struct nlattr *nest;

	text(made, NFTA_CHAIN_TABLE, table);
	text(made, NFTA_CHAIN_NAME, name);
	nest = attribute(made, NFTA_CHAIN_HOOK | NLA_F_NESTED, NULL, 0);
	attribute(made, NFTA_HOOK_HOOKNUM, &where, sizeof(where));
	attribute(made, NFTA_HOOK_PRIORITY, &priority, sizeof(priority));
	end(nest);
	text(made, NFTA_CHAIN_TYPE, "filter");
	errno = commit();
	check(errno, "NFT_MSG_NEWCHAIN");
}

#endif
