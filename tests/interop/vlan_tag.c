/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VLAN on an interface for kernels without VLANs: programs for `tc filter … bpf`. What leaves is tagged; what comes in is
 * untagged, or dropped if it had no tag or another one. Compiled with `clang -O2 -target bpf -DVLAN=N`.
 */
struct __sk_buff {
	unsigned int len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci,
		vlan_proto;
};

/* Helpers of the kernel, by number (linux/bpf.h). */
static long (*const vlan_push)(struct __sk_buff *skb, unsigned short proto,
			       unsigned short tci) = (void *)18;
static long (*const vlan_pop)(struct __sk_buff *skb) = (void *)19;

#define PASS    0
#define DROP    2
#define ETHER_Q 0x0081 /* 802.1Q, network order on a little-endian host */

__attribute__((section("leaves"), used)) int on_leaving(struct __sk_buff *skb)
{
	return vlan_push(skb, ETHER_Q, VLAN) == 0 ? PASS : DROP;
}

__attribute__((section("comes"), used)) int on_coming(struct __sk_buff *skb)
{
	if (!skb->vlan_present || (skb->vlan_tci & 0xfff) != VLAN)
		return DROP;
	return vlan_pop(skb) == 0 ? PASS : DROP;
}

__attribute__((section("license"), used)) char terms[] = "Dual MIT/GPL";
