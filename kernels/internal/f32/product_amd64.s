#include "textflag.h"

// The micro-kernels of product_f32.go: a tile of C stays in vector registers
// while k steps of a panel of A (one broadcast a row) and of a panel of B (two
// vectors) pass by. Both panels are read in one straight line. The two halves
// of a row of C may lie apart.
//
// Registers: CX steps left, SI panel of A, DI panel of B, DX C, R9 its right
// half, R8 bytes a row.

#define BEGIN \
	MOVQ k+0(FP), CX      \
	MOVQ a+8(FP), SI      \
	MOVQ b+16(FP), DI     \
	MOVQ c+24(FP), DX     \
	MOVQ ldc+32(FP), R8   \
	MOVQ right+40(FP), R9 \
	SHLQ $2, R8           \
	LEAQ (DX)(R9*4), R9   \
	MOVBLZX add+48(FP), AX

// WIDE is a row's part of a step: an element of A times a step of B.
#define WIDE(at, x, left, right) \
	VBROADCASTSS at(SI), x   \
	VFMADD231PS Z0, x, left  \
	VFMADD231PS Z1, x, right

// TAKE adds a row of C to its sums, and PUT makes them the row.
#define TAKE(left, right) \
	VADDPS (DX)(BX*1), left, left   \
	VADDPS (R9)(BX*1), right, right \
	ADDQ R8, BX

#define PUT(left, right) \
	VMOVUPS left, (DX)  \
	VMOVUPS right, (R9) \
	ADDQ R8, DX         \
	ADDQ R8, R9

// Rows of a tile: Z8 to Z31 are the sums, Z0 and Z1 a step of B, Z2 to Z7
// elements of A in turn.
#define WIDE4(at, x, y, z, u, l0, r0, l1, r1, l2, r2, l3, r3) \
	WIDE(at, x, l0, r0)    \
	WIDE(at+4, y, l1, r1)  \
	WIDE(at+8, z, l2, r2)  \
	WIDE(at+12, u, l3, r3)

#define TAKE4(l0, r0, l1, r1, l2, r2, l3, r3) \
	TAKE(l0, r0) \
	TAKE(l1, r1) \
	TAKE(l2, r2) \
	TAKE(l3, r3)

#define PUT4(l0, r0, l1, r1, l2, r2, l3, r3) \
	PUT(l0, r0) \
	PUT(l1, r1) \
	PUT(l2, r2) \
	PUT(l3, r3)

#define CLEAR4(l0, r0, l1, r1, l2, r2, l3, r3) \
	VPXORQ l0, l0, l0 \
	VPXORQ r0, r0, r0 \
	VPXORQ l1, l1, l1 \
	VPXORQ r1, r1, r1 \
	VPXORQ l2, l2, l2 \
	VPXORQ r2, r2, r2 \
	VPXORQ l3, l3, l3 \
	VPXORQ r3, r3, r3

#define STEP \
	VMOVUPS (DI), Z0   \
	VMOVUPS 64(DI), Z1

#define NEXT \
	ADDQ $48, SI  \
	ADDQ $128, DI \
	DECQ CX

// func tile12AVX512(k int, a, b, c *float32, ldc, right int, add bool)
// 12 rows × 32 columns.
TEXT ·tile12AVX512(SB), NOSPLIT, $0-49
	BEGIN
	CLEAR4(Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15)
	CLEAR4(Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23)
	CLEAR4(Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31)

tile12AVX512Step:
	STEP
	WIDE4(0, Z2, Z3, Z4, Z5, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15)
	WIDE4(16, Z6, Z7, Z2, Z3, Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23)
	WIDE4(32, Z4, Z5, Z6, Z7, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31)
	NEXT
	JNZ tile12AVX512Step

	TESTL AX, AX
	JZ tile12AVX512Store
	XORQ BX, BX
	TAKE4(Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15)
	TAKE4(Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23)
	TAKE4(Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31)

tile12AVX512Store:
	PUT4(Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15)
	PUT4(Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23)
	PUT4(Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31)
	VZEROUPPER
	RET

// func tile8AVX512(k int, a, b, c *float32, ldc, right int, add bool)
// The first 8 rows × 32 columns.
TEXT ·tile8AVX512(SB), NOSPLIT, $0-49
	BEGIN
	CLEAR4(Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15)
	CLEAR4(Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23)

tile8AVX512Step:
	STEP
	WIDE4(0, Z2, Z3, Z4, Z5, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15)
	WIDE4(16, Z6, Z7, Z2, Z3, Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23)
	NEXT
	JNZ tile8AVX512Step

	TESTL AX, AX
	JZ tile8AVX512Store
	XORQ BX, BX
	TAKE4(Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15)
	TAKE4(Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23)

tile8AVX512Store:
	PUT4(Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15)
	PUT4(Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23)
	VZEROUPPER
	RET

// func tile4AVX512(k int, a, b, c *float32, ldc, right int, add bool)
// The first 4 rows × 32 columns.
TEXT ·tile4AVX512(SB), NOSPLIT, $0-49
	BEGIN
	CLEAR4(Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15)

tile4AVX512Step:
	STEP
	WIDE4(0, Z2, Z3, Z4, Z5, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15)
	NEXT
	JNZ tile4AVX512Step

	TESTL AX, AX
	JZ tile4AVX512Store
	XORQ BX, BX
	TAKE4(Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15)

tile4AVX512Store:
	PUT4(Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15)
	VZEROUPPER
	RET

// func tileAVX2(k int, a, b, c *float32, ldc, right int, add bool)
// 6 rows × 16 columns: Y4 to Y15 are the sums, Y0 and Y1 a step of B, Y2 and
// Y3 elements of A in turn.
#define NARROW(at, x, left, right) \
	VBROADCASTSS at(SI), x   \
	VFMADD231PS Y0, x, left  \
	VFMADD231PS Y1, x, right

TEXT ·tileAVX2(SB), NOSPLIT, $0-49
	BEGIN
	VXORPS Y4, Y4, Y4
	VXORPS Y5, Y5, Y5
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7
	VXORPS Y8, Y8, Y8
	VXORPS Y9, Y9, Y9
	VXORPS Y10, Y10, Y10
	VXORPS Y11, Y11, Y11
	VXORPS Y12, Y12, Y12
	VXORPS Y13, Y13, Y13
	VXORPS Y14, Y14, Y14
	VXORPS Y15, Y15, Y15

tileAVX2Step:
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	NARROW(0, Y2, Y4, Y5)
	NARROW(4, Y3, Y6, Y7)
	NARROW(8, Y2, Y8, Y9)
	NARROW(12, Y3, Y10, Y11)
	NARROW(16, Y2, Y12, Y13)
	NARROW(20, Y3, Y14, Y15)
	ADDQ $24, SI
	ADDQ $64, DI
	DECQ CX
	JNZ tileAVX2Step

	TESTL AX, AX
	JZ tileAVX2Store
	XORQ BX, BX
	TAKE(Y4, Y5)
	TAKE(Y6, Y7)
	TAKE(Y8, Y9)
	TAKE(Y10, Y11)
	TAKE(Y12, Y13)
	TAKE(Y14, Y15)

tileAVX2Store:
	PUT(Y4, Y5)
	PUT(Y6, Y7)
	PUT(Y8, Y9)
	PUT(Y10, Y11)
	PUT(Y12, Y13)
	PUT(Y14, Y15)
	VZEROUPPER
	RET

// func turnAVX2(dst, src *float32, k, ld, w int)
// Eight rows become columns, eight elements of each in a turn.
TEXT ·turnAVX2(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ k+16(FP), CX
	MOVQ ld+24(FP), DX
	MOVQ w+32(FP), BX
	SHLQ $2, DX
	SHLQ $2, BX
	LEAQ (DX)(DX*2), R9
	LEAQ (BX)(BX*2), R11

turnLoop:
	LEAQ (SI)(DX*4), R10
	VMOVUPS (SI), Y0
	VMOVUPS (SI)(DX*1), Y1
	VMOVUPS (SI)(DX*2), Y2
	VMOVUPS (SI)(R9*1), Y3
	VMOVUPS (R10), Y4
	VMOVUPS (R10)(DX*1), Y5
	VMOVUPS (R10)(DX*2), Y6
	VMOVUPS (R10)(R9*1), Y7
	VUNPCKLPS Y1, Y0, Y8
	VUNPCKHPS Y1, Y0, Y9
	VUNPCKLPS Y3, Y2, Y10
	VUNPCKHPS Y3, Y2, Y11
	VUNPCKLPS Y5, Y4, Y12
	VUNPCKHPS Y5, Y4, Y13
	VUNPCKLPS Y7, Y6, Y14
	VUNPCKHPS Y7, Y6, Y15
	VSHUFPS $0x44, Y10, Y8, Y0
	VSHUFPS $0xee, Y10, Y8, Y1
	VSHUFPS $0x44, Y11, Y9, Y2
	VSHUFPS $0xee, Y11, Y9, Y3
	VSHUFPS $0x44, Y14, Y12, Y4
	VSHUFPS $0xee, Y14, Y12, Y5
	VSHUFPS $0x44, Y15, Y13, Y6
	VSHUFPS $0xee, Y15, Y13, Y7
	VPERM2F128 $0x20, Y4, Y0, Y8
	VPERM2F128 $0x20, Y5, Y1, Y9
	VPERM2F128 $0x20, Y6, Y2, Y10
	VPERM2F128 $0x20, Y7, Y3, Y11
	VPERM2F128 $0x31, Y4, Y0, Y12
	VPERM2F128 $0x31, Y5, Y1, Y13
	VPERM2F128 $0x31, Y6, Y2, Y14
	VPERM2F128 $0x31, Y7, Y3, Y15
	LEAQ (DI)(BX*4), R12
	VMOVUPS Y8, (DI)
	VMOVUPS Y9, (DI)(BX*1)
	VMOVUPS Y10, (DI)(BX*2)
	VMOVUPS Y11, (DI)(R11*1)
	VMOVUPS Y12, (R12)
	VMOVUPS Y13, (R12)(BX*1)
	VMOVUPS Y14, (R12)(BX*2)
	VMOVUPS Y15, (R12)(R11*1)
	ADDQ $32, SI
	LEAQ (DI)(BX*8), DI
	SUBQ $8, CX
	JG turnLoop
	VZEROUPPER
	RET

// func copyRowsAVX2(dst, src *float32, rows, n, dstStep, srcStep int)
// The last eight elements of a row go again over what is there.
TEXT ·copyRowsAVX2(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ rows+16(FP), CX
	MOVQ n+24(FP), DX
	MOVQ dstStep+32(FP), R8
	MOVQ srcStep+40(FP), R9
	SHLQ $2, R8
	SHLQ $2, R9
	LEAQ -32(DX*4), DX

copyRowsNext:
	LEAQ (SI)(R9*8), AX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	XORQ BX, BX
	JMP copyRowsTest

copyRowsLoop:
	VMOVUPS (SI)(BX*1), Y0
	VMOVUPS Y0, (DI)(BX*1)
	ADDQ $32, BX

copyRowsTest:
	CMPQ BX, DX
	JLT copyRowsLoop
	VMOVUPS (SI)(DX*1), Y0
	VMOVUPS Y0, (DI)(DX*1)
	ADDQ R9, SI
	ADDQ R8, DI
	DECQ CX
	JNZ copyRowsNext
	VZEROUPPER
	RET
