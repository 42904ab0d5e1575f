/* Stands in for the kernel's header; BCC's proto.h includes it and needs nothing of it. */
