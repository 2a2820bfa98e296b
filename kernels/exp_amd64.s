#include "textflag.h"

// The numbers of mathf.go, in order of use.
DATA expTable<>+0(SB)/4, $0x42b171aa  // 88.722: expMax
DATA expTable<>+4(SB)/4, $0xc2aea8f6  // -87.33: expMin
DATA expTable<>+8(SB)/4, $0x3fb8aa3b  // log2e
DATA expTable<>+12(SB)/4, $0x3f318000 // ln2Hi
DATA expTable<>+16(SB)/4, $0xb95e8083 // ln2Lo
DATA expTable<>+20(SB)/4, $0x39506967 // expC0
DATA expTable<>+24(SB)/4, $0x3ab743ce // expC1
DATA expTable<>+28(SB)/4, $0x3c088908 // expC2
DATA expTable<>+32(SB)/4, $0x3d2aa9c1 // expC3
DATA expTable<>+36(SB)/4, $0x3e2aaaaa // expC4
DATA expTable<>+40(SB)/4, $0x3f000000 // expC5
DATA expTable<>+44(SB)/4, $0x3f800000 // 1
DATA expTable<>+48(SB)/4, $0x7f800000 // +Inf
DATA expTable<>+52(SB)/4, $127
GLOBL expTable<>(SB), RODATA|NOPTR, $56

// func expAVX2(y, x *float32, n int)
// Y0 x, Y1 k, Y2 r, Y3 the polynomial; Y4 to Y15 constants.
TEXT ·expAVX2(SB), NOSPLIT, $0-24
	MOVQ y+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	LEAQ expTable<>(SB), DX
	VBROADCASTSS 8(DX), Y6   // log2e
	VBROADCASTSS 12(DX), Y7  // ln2Hi
	VBROADCASTSS 16(DX), Y8  // ln2Lo
	VBROADCASTSS 20(DX), Y9  // C0
	VBROADCASTSS 24(DX), Y10 // C1
	VBROADCASTSS 28(DX), Y11 // C2
	VBROADCASTSS 32(DX), Y12 // C3
	VBROADCASTSS 36(DX), Y13 // C4
	VBROADCASTSS 40(DX), Y14 // C5
	VBROADCASTSS 44(DX), Y15 // 1
	SHRQ $3, CX

loop:
	VMOVUPS (SI), Y0
	VBROADCASTSS (DX), Y4
	VBROADCASTSS 4(DX), Y5
	VMINPS Y0, Y4, Y1          // min(88.722, x), x if it is NaN
	VMAXPS Y1, Y5, Y1          // max(-87.33, ·), NaN stays
	VMULPS Y6, Y1, Y2
	VROUNDPS $8, Y2, Y2        // k
	VMOVAPS Y1, Y3
	VFNMADD231PS Y7, Y2, Y3
	VFNMADD231PS Y8, Y2, Y3    // r
	VMOVAPS Y9, Y1
	VFMADD213PS Y10, Y3, Y1
	VFMADD213PS Y11, Y3, Y1
	VFMADD213PS Y12, Y3, Y1
	VFMADD213PS Y13, Y3, Y1
	VFMADD213PS Y14, Y3, Y1
	VMULPS Y3, Y3, Y4
	VFMADD213PS Y3, Y4, Y1     // p·r² + r
	VADDPS Y15, Y1, Y1         // + 1

	// · 2^(k/2) · 2^(k - k/2)
	VCVTPS2DQ Y2, Y2
	VPSRAD $1, Y2, Y4
	VPSUBD Y4, Y2, Y2
	VPBROADCASTD 52(DX), Y3
	VPADDD Y3, Y4, Y4
	VPADDD Y3, Y2, Y2
	VPSLLD $23, Y4, Y4
	VPSLLD $23, Y2, Y2
	VMULPS Y4, Y1, Y1
	VMULPS Y2, Y1, Y1

	// Beyond the ends: 0 and +Inf.
	VCMPPS $1, Y5, Y0, Y3      // x < -87.33
	VANDNPS Y1, Y3, Y1
	VBROADCASTSS (DX), Y4
	VCMPPS $0x1e, Y4, Y0, Y3   // x > 88.722
	VBROADCASTSS 48(DX), Y4
	VBLENDVPS Y3, Y4, Y1, Y1

	VMOVUPS Y1, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET
