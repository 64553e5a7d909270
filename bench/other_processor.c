/* Lets a program believe that it runs on another vendor's processor, so that libraries which select kernels by vendor
 * take the others. Instruction sets stay those of this processor. For bench/bits.py on Linux, x86-64:
 *     cc -shared -fPIC -o other_processor.so other_processor.c
 *     LD_PRELOAD=./other_processor.so troupe --version
 * The instruction CPUID is made to fault (arch_prctl), and the handler answers in its place. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { arch_set_cpuid = 0x1012 };

static int allow_cpuid(int allowed) {
  return (int)syscall(SYS_arch_prctl, arch_set_cpuid, allowed);
}

static void answer(int number, siginfo_t* info, void* context) {
  greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  const unsigned char* code = (const unsigned char*)registers[REG_RIP];
  (void)number, (void)info;
  if (code[0] != 0x0f || code[1] != 0xa2) { /* another fault, which ends the program when it is repeated */
    signal(SIGSEGV, SIG_DFL);
    return;
  }
  uint32_t leaf = (uint32_t)registers[REG_RAX], part = (uint32_t)registers[REG_RCX], a, b, c, d;
  allow_cpuid(1);
  __cpuid_count(leaf, part, a, b, c, d);
  allow_cpuid(0);
  if (leaf == 0 || leaf == 0x80000000u) memcpy(&b, "Auth", 4), memcpy(&d, "enti", 4), memcpy(&c, "cAMD", 4);
  if (leaf == 0x80000000u) a = 0x80000028u;
  if (leaf == 1) a = 0x00a10f11; /* family 25, model 17 */
  if (leaf == 0x8000001du) {     /* caches: 32 KiB, 32 KiB, 1 MiB and 32 MiB, with lines of 64 bytes */
    static const uint32_t kib[] = {32, 32, 1024, 32768}, kind[] = {1, 2, 3, 3}, level[] = {1, 1, 2, 3};
    const int known = part < 4;
    const uint32_t ways = part == 3 ? 16 : 8;
    a = known ? kind[part] | level[part] << 5 | 1u << 8 | (part == 3 ? 15u : 1u) << 14 : 0;
    b = known ? 63 | (ways - 1) << 22 : 0;
    c = known ? kib[part] * 1024 / (64 * ways) - 1 : 0;
    d = 0;
  }
  registers[REG_RAX] = a, registers[REG_RBX] = b, registers[REG_RCX] = c, registers[REG_RDX] = d;
  registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = answer;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigaction(SIGSEGV, &action, 0);
  if (allow_cpuid(0) != 0) {
    static const char text[] = "other_processor: CPUID cannot be made to fault here\n";
    (void)!write(2, text, sizeof text - 1);
    _exit(1);
  }
}
