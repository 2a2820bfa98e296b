package onnx

import "google.golang.org/protobuf/encoding/protowire"

type fieldNum = protowire.Number

// Field numbers of onnx.proto, for reading and writing. Other fields are skipped.
const (
	modelIR         fieldNum = 1
	modelProducer   fieldNum = 2
	modelDomain     fieldNum = 4
	modelVersion    fieldNum = 5
	modelDoc        fieldNum = 6
	modelGraph      fieldNum = 7
	modelOpset      fieldNum = 8
	modelMetadata   fieldNum = 14
	modelTraining   fieldNum = 20
	modelFunction   fieldNum = 25
	opsetDomain     fieldNum = 1
	opsetVersion    fieldNum = 2
	entryKey        fieldNum = 1
	entryValue      fieldNum = 2
	graphNode       fieldNum = 1
	graphName       fieldNum = 2
	graphInit       fieldNum = 5
	graphDoc        fieldNum = 10
	graphInput      fieldNum = 11
	graphOutput     fieldNum = 12
	graphInfo       fieldNum = 13
	graphSparse     fieldNum = 15
	graphMetadata   fieldNum = 16
	nodeInput       fieldNum = 1
	nodeOutput      fieldNum = 2
	nodeName        fieldNum = 3
	nodeOp          fieldNum = 4
	nodeAttr        fieldNum = 5
	nodeDoc         fieldNum = 6
	nodeDomain      fieldNum = 7
	nodeOverload    fieldNum = 8
	nodeMetadata    fieldNum = 9
	attrName        fieldNum = 1
	attrF           fieldNum = 2
	attrI           fieldNum = 3
	attrS           fieldNum = 4
	attrT           fieldNum = 5
	attrG           fieldNum = 6
	attrFloats      fieldNum = 7
	attrInts        fieldNum = 8
	attrStrings     fieldNum = 9
	attrGraphs      fieldNum = 11
	attrKind        fieldNum = 20
	attrRef         fieldNum = 21
	tensorDims      fieldNum = 1
	tensorType      fieldNum = 2
	tensorSegment   fieldNum = 3
	tensorFloats    fieldNum = 4
	tensorInt32s    fieldNum = 5
	tensorInt64s    fieldNum = 7
	tensorName      fieldNum = 8
	tensorRaw       fieldNum = 9
	tensorDoubles   fieldNum = 10
	tensorUint64s   fieldNum = 11
	tensorExternal  fieldNum = 13
	tensorLocation  fieldNum = 14
	tensorMetadata  fieldNum = 16
	valueName       fieldNum = 1
	valueType       fieldNum = 2
	valueMetadata   fieldNum = 4
	typeTensor      fieldNum = 1
	tensorTypeElem  fieldNum = 1
	tensorTypeShape fieldNum = 2
	shapeDim        fieldNum = 1
	dimValue        fieldNum = 1
	dimParam        fieldNum = 2
	dimDenotation   fieldNum = 3
	funcName        fieldNum = 1
	funcInput       fieldNum = 4
	funcOutput      fieldNum = 5
	funcAttr        fieldNum = 6
	funcNode        fieldNum = 7
	funcOpset       fieldNum = 9
	funcDomain      fieldNum = 10
	funcAttrDefault fieldNum = 11
	funcOverload    fieldNum = 13
)

// The opsets of the default domain that are read, and the minimum that is written.
const (
	oldestOpset  = 1
	newestOpset  = 28
	writtenOpset = 20
	writtenIR    = 10
)

// elemNames names ONNX's element types that are not supported.
var elemNames = map[int64]string{
	0: "undefined", 8: "string", 14: "complex64", 15: "complex128", 23: "float4e2m1", 24: "float8e8m0",
}
