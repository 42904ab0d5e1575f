/* Stands in for the kernel's header; BCC force-includes it (CONFIG_BPF_SYSCALL guards its helpers).
 */
#ifndef __LINUX_KCONFIG_H
#define __LINUX_KCONFIG_H
#define CONFIG_BPF_SYSCALL 1
#endif
