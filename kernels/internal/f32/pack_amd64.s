#include "textflag.h"

// Packing with AVX-512: what pack_f32.go asks for. Elements that are not to be
// read are masked, so an address may lie outside of what there is.

DATA evens<>+0(SB)/4, $0
DATA evens<>+4(SB)/4, $2
DATA evens<>+8(SB)/4, $4
DATA evens<>+12(SB)/4, $6
DATA evens<>+16(SB)/4, $8
DATA evens<>+20(SB)/4, $10
DATA evens<>+24(SB)/4, $12
DATA evens<>+28(SB)/4, $14
DATA evens<>+32(SB)/4, $16
DATA evens<>+36(SB)/4, $18
DATA evens<>+40(SB)/4, $20
DATA evens<>+44(SB)/4, $22
DATA evens<>+48(SB)/4, $24
DATA evens<>+52(SB)/4, $26
DATA evens<>+56(SB)/4, $28
DATA evens<>+60(SB)/4, $30
GLOBL evens<>(SB), RODATA|NOPTR, $64

// TURN makes rows Z0 to Z15 columns, through Z16 to Z31.
#define TURN \
	VUNPCKLPS Z1, Z0, Z16 \
	VUNPCKHPS Z1, Z0, Z17 \
	VUNPCKLPS Z3, Z2, Z18 \
	VUNPCKHPS Z3, Z2, Z19 \
	VUNPCKLPS Z5, Z4, Z20 \
	VUNPCKHPS Z5, Z4, Z21 \
	VUNPCKLPS Z7, Z6, Z22 \
	VUNPCKHPS Z7, Z6, Z23 \
	VUNPCKLPS Z9, Z8, Z24 \
	VUNPCKHPS Z9, Z8, Z25 \
	VUNPCKLPS Z11, Z10, Z26 \
	VUNPCKHPS Z11, Z10, Z27 \
	VUNPCKLPS Z13, Z12, Z28 \
	VUNPCKHPS Z13, Z12, Z29 \
	VUNPCKLPS Z15, Z14, Z30 \
	VUNPCKHPS Z15, Z14, Z31 \
	VUNPCKLPD Z18, Z16, Z0 \
	VUNPCKHPD Z18, Z16, Z1 \
	VUNPCKLPD Z19, Z17, Z2 \
	VUNPCKHPD Z19, Z17, Z3 \
	VUNPCKLPD Z22, Z20, Z4 \
	VUNPCKHPD Z22, Z20, Z5 \
	VUNPCKLPD Z23, Z21, Z6 \
	VUNPCKHPD Z23, Z21, Z7 \
	VUNPCKLPD Z26, Z24, Z8 \
	VUNPCKHPD Z26, Z24, Z9 \
	VUNPCKLPD Z27, Z25, Z10 \
	VUNPCKHPD Z27, Z25, Z11 \
	VUNPCKLPD Z30, Z28, Z12 \
	VUNPCKHPD Z30, Z28, Z13 \
	VUNPCKLPD Z31, Z29, Z14 \
	VUNPCKHPD Z31, Z29, Z15 \
	VSHUFF32X4 $0x88, Z4, Z0, Z16 \
	VSHUFF32X4 $0xdd, Z4, Z0, Z20 \
	VSHUFF32X4 $0x88, Z12, Z8, Z24 \
	VSHUFF32X4 $0xdd, Z12, Z8, Z28 \
	VSHUFF32X4 $0x88, Z5, Z1, Z17 \
	VSHUFF32X4 $0xdd, Z5, Z1, Z21 \
	VSHUFF32X4 $0x88, Z13, Z9, Z25 \
	VSHUFF32X4 $0xdd, Z13, Z9, Z29 \
	VSHUFF32X4 $0x88, Z6, Z2, Z18 \
	VSHUFF32X4 $0xdd, Z6, Z2, Z22 \
	VSHUFF32X4 $0x88, Z14, Z10, Z26 \
	VSHUFF32X4 $0xdd, Z14, Z10, Z30 \
	VSHUFF32X4 $0x88, Z7, Z3, Z19 \
	VSHUFF32X4 $0xdd, Z7, Z3, Z23 \
	VSHUFF32X4 $0x88, Z15, Z11, Z27 \
	VSHUFF32X4 $0xdd, Z15, Z11, Z31 \
	VSHUFF32X4 $0x88, Z24, Z16, Z0 \
	VSHUFF32X4 $0x88, Z28, Z20, Z4 \
	VSHUFF32X4 $0xdd, Z24, Z16, Z8 \
	VSHUFF32X4 $0xdd, Z28, Z20, Z12 \
	VSHUFF32X4 $0x88, Z25, Z17, Z1 \
	VSHUFF32X4 $0x88, Z29, Z21, Z5 \
	VSHUFF32X4 $0xdd, Z25, Z17, Z9 \
	VSHUFF32X4 $0xdd, Z29, Z21, Z13 \
	VSHUFF32X4 $0x88, Z26, Z18, Z2 \
	VSHUFF32X4 $0x88, Z30, Z22, Z6 \
	VSHUFF32X4 $0xdd, Z26, Z18, Z10 \
	VSHUFF32X4 $0xdd, Z30, Z22, Z14 \
	VSHUFF32X4 $0x88, Z27, Z19, Z3 \
	VSHUFF32X4 $0x88, Z31, Z23, Z7 \
	VSHUFF32X4 $0xdd, Z27, Z19, Z11 \
	VSHUFF32X4 $0xdd, Z31, Z23, Z15

// WRITE writes a column, if there is one left.
#define WRITE(col, done) \
	VMOVUPS col, K7, (DI) \
	ADDQ R9, DI           \
	DECQ R10              \
	JZ done

#define WRITEALL(done) \
	WRITE(Z0, done) \
	WRITE(Z1, done) \
	WRITE(Z2, done) \
	WRITE(Z3, done) \
	WRITE(Z4, done) \
	WRITE(Z5, done) \
	WRITE(Z6, done) \
	WRITE(Z7, done) \
	WRITE(Z8, done) \
	WRITE(Z9, done) \
	WRITE(Z10, done) \
	WRITE(Z11, done) \
	WRITE(Z12, done) \
	WRITE(Z13, done) \
	WRITE(Z14, done) \
	WRITE(Z15, done)

// TURNING reads what all three have in common. Registers: SI the row's base, DI
// where columns go, R9 bytes from one to the next, CX steps left, R8 the
// turning, K7 the lanes to write, R10 steps of this turn, K1 which they are.
#define TURNING \
	MOVQ dst+0(FP), DI  \
	MOVQ src+8(FP), SI  \
	MOVQ t+16(FP), R8   \
	MOVQ n+24(FP), CX   \
	MOVQ w+32(FP), R9   \
	SHLQ $2, R9         \
	MOVQ 256(R8), AX    \
	LEAQ (SI)(AX*4), SI \
	KMOVW 264(R8), K7

#define TURNS \
	MOVQ $16, R10       \
	CMPQ CX, R10        \
	CMOVQLT CX, R10     \
	SUBQ R10, CX        \
	MOVQ R10, AX        \
	MOVL $1, DX         \
	SHLXL AX, DX, DX    \
	DECL DX

// AHEAD is how many bytes before their turn rows are asked for: they are many,
// and too far apart for the processor to foresee.
#define AHEAD 512

#define LOAD(i, row) \
	MOVQ 8*i(R8), AX              \
	VMOVUPS.Z (SI)(AX*4), K1, row \
	PREFETCHT0 AHEAD(SI)(AX*4)

// SEES is the mask of a row from its bits: R11 is where they begin, R12 the bit
// of this turn's first step, DX the steps that there are.
#define SEES(i) \
	MOVQ 128+8*i(R8), AX  \
	ADDQ R11, AX          \
	MOVL (AX)(BX*1), AX   \
	SHRXL R12, AX, AX     \
	ANDL DX, AX           \
	KMOVW AX, K1

#define LOADSEEN(i, row) \
	SEES(i)             \
	MOVQ 8*i(R8), AX    \
	VMOVUPS.Z (SI)(AX*4), K1, row \
	PREFETCHT0 AHEAD(SI)(AX*4)

#define LOADPAIRS(i, row) \
	MOVQ 128+8*i(R8), AX        \
	ADDQ R11, AX                \
	MOVL (AX)(BX*1), AX         \
	SHRXL R12, AX, AX           \
	ANDL DX, AX                 \
	PDEPL R13, AX, AX           \
	KMOVW AX, K1                \
	SHRL $16, AX                \
	KMOVW AX, K2                \
	MOVQ 8*i(R8), AX            \
	VMOVUPS.Z (SI)(AX*4), K1, row \
	VMOVUPS.Z 64(SI)(AX*4), K2, Z16 \
	VPERMT2PS Z16, Z31, row \
	PREFETCHT0 AHEAD(SI)(AX*4) \
	PREFETCHT0 (AHEAD+64)(SI)(AX*4)

// func copySeenAVX512(dst, src *float32, list *sight, n, channels, srcStep, dstStep int)
// Four channels of all sights, then the next four: channels may lie so that few
// of them have room in the first cache at one time.
//
// Registers: R8 the sight, R9 sights left, R10 and R11 steps in bytes, BX
// channels done; of a sight SI and DI its elements, CX channels left, K1 what it
// sees, K2 what it writes.
TEXT ·copySeenAVX512(SB), NOSPLIT, $0-56
	MOVQ srcStep+40(FP), R10
	MOVQ dstStep+48(FP), R11
	SHLQ $2, R10
	SHLQ $2, R11
	LEAQ (R10)(R10*2), R12
	LEAQ (R11)(R11*2), R13
	XORQ BX, BX

copySeenFour:
	MOVQ list+16(FP), R8
	MOVQ n+24(FP), R9

copySeenNext:
	MOVLQSX 16(R8), CX
	SUBQ BX, CX
	MOVQ 0(R8), AX
	MOVQ src+8(FP), SI
	LEAQ (SI)(AX*4), SI
	MOVQ 8(R8), AX
	MOVQ dst+0(FP), DI
	LEAQ (DI)(AX*4), DI
	KMOVW 20(R8), K1
	KMOVW 22(R8), K2
	CMPQ CX, $4
	JLT copySeenRest
	VMOVUPS.Z (SI), K1, Z0
	VMOVUPS.Z (SI)(R10*1), K1, Z1
	VMOVUPS.Z (SI)(R10*2), K1, Z2
	VMOVUPS.Z (SI)(R12*1), K1, Z3
	VMOVUPS Z0, K2, (DI)
	VMOVUPS Z1, K2, (DI)(R11*1)
	VMOVUPS Z2, K2, (DI)(R11*2)
	VMOVUPS Z3, K2, (DI)(R13*1)
	JMP copySeenDone

copySeenRest:
	TESTQ CX, CX
	JLE copySeenDone

copySeenOne:
	VMOVUPS.Z (SI), K1, Z0
	VMOVUPS Z0, K2, (DI)
	ADDQ R10, SI
	ADDQ R11, DI
	DECQ CX
	JNZ copySeenOne

copySeenDone:
	ADDQ $24, R8
	DECQ R9
	JNZ copySeenNext
	LEAQ (R10)(R12*1), AX
	ADDQ AX, src+8(FP)
	LEAQ (R11)(R13*1), AX
	ADDQ AX, dst+0(FP)
	ADDQ $4, BX
	CMPQ BX, channels+32(FP)
	JLT copySeenFour
	VZEROUPPER
	RET

// func copyPairsAVX512(dst, src *float32, list *sight, n, srcStep, dstStep int)
// The same for every other element: of 32 that two loads bring.
TEXT ·copyPairsAVX512(SB), NOSPLIT, $0-48
	MOVQ list+16(FP), R8
	MOVQ n+24(FP), R9
	MOVQ srcStep+32(FP), R10
	MOVQ dstStep+40(FP), R11
	VMOVDQU32 evens<>(SB), Z31
	MOVL $0x55555555, BX
	SHLQ $2, R10
	SHLQ $2, R11

copyPairsNext:
	MOVQ src+8(FP), SI
	MOVQ dst+0(FP), DI
	MOVQ 0(R8), AX
	LEAQ (SI)(AX*4), SI
	MOVQ 8(R8), AX
	LEAQ (DI)(AX*4), DI
	MOVLQSX 16(R8), CX
	MOVWLZX 20(R8), AX
	PDEPL BX, AX, AX
	KMOVW AX, K1
	SHRL $16, AX
	KMOVW AX, K3
	KMOVW 22(R8), K2

copyPairsRow:
	VMOVUPS.Z (SI), K1, Z0
	VMOVUPS.Z 64(SI), K3, Z1
	VPERMT2PS Z1, Z31, Z0
	VMOVUPS Z0, K2, (DI)
	ADDQ R10, SI
	ADDQ R11, DI
	DECQ CX
	JNZ copyPairsRow
	ADDQ $24, R8
	DECQ R9
	JNZ copyPairsNext
	VZEROUPPER
	RET

// func turnAVX512(dst, src *float32, t *turning, n, w int)
TEXT ·turnAVX512(SB), NOSPLIT, $0-40
	TURNING

turnNext:
	TURNS
	KMOVW DX, K1
	LOAD(0, Z0)
	LOAD(1, Z1)
	LOAD(2, Z2)
	LOAD(3, Z3)
	LOAD(4, Z4)
	LOAD(5, Z5)
	LOAD(6, Z6)
	LOAD(7, Z7)
	LOAD(8, Z8)
	LOAD(9, Z9)
	LOAD(10, Z10)
	LOAD(11, Z11)
	LOAD(12, Z12)
	LOAD(13, Z13)
	LOAD(14, Z14)
	LOAD(15, Z15)
	TURN
	WRITEALL(turnDone)

turnDone:
	TESTQ CX, CX
	JZ turnEnd
	ADDQ $64, SI
	JMP turnNext

turnEnd:
	VZEROUPPER
	RET

#define LOADSOME(i, row) \
	LOAD(i, row)                \
	VCOMPRESSPS.Z row, K2, row

// func turnSeenAVX512(dst, src *float32, t *turning, n, w int, seen *uint64, bit int)
TEXT ·turnSeenAVX512(SB), NOSPLIT, $0-56
	TURNING
	MOVQ seen+40(FP), R11
	MOVQ bit+48(FP), R12
	MOVQ R12, BX
	SHRQ $3, BX
	ANDQ $7, R12

turnSeenNext:
	TURNS
	LOADSEEN(0, Z0)
	LOADSEEN(1, Z1)
	LOADSEEN(2, Z2)
	LOADSEEN(3, Z3)
	LOADSEEN(4, Z4)
	LOADSEEN(5, Z5)
	LOADSEEN(6, Z6)
	LOADSEEN(7, Z7)
	LOADSEEN(8, Z8)
	LOADSEEN(9, Z9)
	LOADSEEN(10, Z10)
	LOADSEEN(11, Z11)
	LOADSEEN(12, Z12)
	LOADSEEN(13, Z13)
	LOADSEEN(14, Z14)
	LOADSEEN(15, Z15)
	TURN
	WRITEALL(turnSeenDone)

turnSeenDone:
	TESTQ CX, CX
	JZ turnSeenEnd
	ADDQ $64, SI
	ADDQ $2, BX
	JMP turnSeenNext

turnSeenEnd:
	VZEROUPPER
	RET

// func turnPairsAVX512(dst, src *float32, t *turning, n, w int, seen *uint64, bit int)
// The same for every other element of the rows.
TEXT ·turnPairsAVX512(SB), NOSPLIT, $0-56
	TURNING
	MOVQ seen+40(FP), R11
	MOVQ bit+48(FP), R12
	MOVQ R12, BX
	SHRQ $3, BX
	ANDQ $7, R12
	MOVL $0x55555555, R13

turnPairsNext:
	TURNS
	VMOVDQU32 evens<>(SB), Z31
	LOADPAIRS(0, Z0)
	LOADPAIRS(1, Z1)
	LOADPAIRS(2, Z2)
	LOADPAIRS(3, Z3)
	LOADPAIRS(4, Z4)
	LOADPAIRS(5, Z5)
	LOADPAIRS(6, Z6)
	LOADPAIRS(7, Z7)
	LOADPAIRS(8, Z8)
	LOADPAIRS(9, Z9)
	LOADPAIRS(10, Z10)
	LOADPAIRS(11, Z11)
	LOADPAIRS(12, Z12)
	LOADPAIRS(13, Z13)
	LOADPAIRS(14, Z14)
	LOADPAIRS(15, Z15)
	TURN
	WRITEALL(turnPairsDone)

turnPairsDone:
	TESTQ CX, CX
	JZ turnPairsEnd
	ADDQ $128, SI
	ADDQ $2, BX
	JMP turnPairsNext

turnPairsEnd:
	VZEROUPPER
	RET

// func turnSomeAVX512(dst, src *float32, t *turning, n, w, all, some int)
// The same for n elements of rows of all, at most 16: those whose bits are in
// some.
TEXT ·turnSomeAVX512(SB), NOSPLIT, $0-56
	TURNING
	MOVQ some+48(FP), AX
	KMOVW AX, K2
	MOVQ CX, R10
	MOVQ all+40(FP), AX
	MOVL $1, DX
	SHLXL AX, DX, DX
	DECL DX
	KMOVW DX, K1
	LOADSOME(0, Z0)
	LOADSOME(1, Z1)
	LOADSOME(2, Z2)
	LOADSOME(3, Z3)
	LOADSOME(4, Z4)
	LOADSOME(5, Z5)
	LOADSOME(6, Z6)
	LOADSOME(7, Z7)
	LOADSOME(8, Z8)
	LOADSOME(9, Z9)
	LOADSOME(10, Z10)
	LOADSOME(11, Z11)
	LOADSOME(12, Z12)
	LOADSOME(13, Z13)
	LOADSOME(14, Z14)
	LOADSOME(15, Z15)
	TURN
	WRITEALL(turnSomeDone)

turnSomeDone:
	VZEROUPPER
	RET
