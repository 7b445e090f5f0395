package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// parquetMeaning is the logical type of a column.
type parquetMeaning struct {
	convert func(raw) (Cell, error)
	local   bool // times have no zone
}

// parquetKind returns the logical type of an element of a schema.
func parquetKind(e *format.SchemaElement, zone *time.Location) (k parquetMeaning, err error) {
	if !e.Type.Valid || e.RepetitionType.V == format.Repeated {
		return k, fmt.Errorf("found %s, want a number, a boolean, a text or a time in each row", nestedName(e))
	}
	if e.Type.V == format.FixedLenByteArray && (e.TypeLength.V < 1 || e.TypeLength.V > maxRow) {
		return k, fmt.Errorf("found values of %d bytes, want 1 to %d", e.TypeLength.V, maxRow)
	}
	meaning := logical(e)
	if scale, ok := meaning.(*format.DecimalType); ok {
		k.convert, err = decimal(e.Type.V, scale.Scale)
		return k, err
	}
	switch e.Type.V {
	case format.Boolean:
		k.convert = func(v raw) (Cell, error) {
			return Cell{Form: Text, Text: strconv.FormatBool(v.bits == 1)}, nil
		}
	case format.Float:
		k.convert = func(v raw) (Cell, error) { return RealCell(float64(math.Float32frombits(uint32(v.bits)))), nil }
	case format.Double:
		k.convert = func(v raw) (Cell, error) { return RealCell(math.Float64frombits(v.bits)), nil }
	case format.Int96:
		k.convert = oldTime
	case format.Int32, format.Int64:
		return integers(e.Type.V, meaning, zone)
	default:
		k.convert, err = texts(e, meaning)
	}
	return k, err
}

// nestedName describes a nested element.
func nestedName(e *format.SchemaElement) string {
	switch e.LogicalType.Value.(type) {
	case *format.ListType:
		return "a list"
	case *format.MapType:
		return "a map"
	case *format.VariantType:
		return "a variant"
	}
	switch ct := e.ConvertedType; {
	case ct.Valid && ct.V == deprecated.List, e.Type.Valid:
		return "a list"
	case ct.Valid && (ct.V == deprecated.Map || ct.V == deprecated.MapKeyValue):
		return "a map"
	}
	return fmt.Sprintf("a group of %d columns", max(0, e.NumChildren.V))
}

// logical returns the logical type of an element, or nil if it has none. The converted types of old files are mapped to
// logical types.
func logical(e *format.SchemaElement) format.LogicalTypeValue {
	if e.LogicalType.Value != nil || !e.ConvertedType.Valid {
		return e.LogicalType.Value
	}
	unit := func(value format.TimeUnitValue) format.TimeUnit { return format.TimeUnit{Value: value} }
	switch e.ConvertedType.V {
	case deprecated.UTF8:
		return &format.StringType{}
	case deprecated.Enum:
		return &format.EnumType{}
	case deprecated.Json:
		return &format.JsonType{}
	case deprecated.Bson:
		return &format.BsonType{}
	case deprecated.Decimal:
		return &format.DecimalType{Scale: e.Scale.V, Precision: e.Precision.V}
	case deprecated.Date:
		return &format.DateType{}
	case deprecated.TimeMillis:
		return &format.TimeType{Unit: unit(&format.MilliSeconds{})}
	case deprecated.TimeMicros:
		return &format.TimeType{Unit: unit(&format.MicroSeconds{})}
	case deprecated.TimestampMillis:
		return &format.TimestampType{IsAdjustedToUTC: true, Unit: unit(&format.MilliSeconds{})}
	case deprecated.TimestampMicros:
		return &format.TimestampType{IsAdjustedToUTC: true, Unit: unit(&format.MicroSeconds{})}
	case deprecated.Uint8, deprecated.Uint16, deprecated.Uint32, deprecated.Uint64:
		return &format.IntType{BitWidth: 64}
	}
	return nil
}

// perSecond returns the number of units per second.
func perSecond(unit format.TimeUnit) int64 {
	switch unit.Value.(type) {
	case *format.MilliSeconds:
		return 1e3
	case *format.MicroSeconds:
		return 1e6
	}
	return 1e9
}

// integers returns the conversion of integers, times or days.
func integers(kind format.Type, meaning format.LogicalTypeValue, zone *time.Location) (k parquetMeaning, err error) {
	switch m := meaning.(type) {
	case *format.TimestampType:
		units := perSecond(m.Unit)
		k.local = !m.IsAdjustedToUTC
		k.convert = func(v raw) (Cell, error) { return instant(int64(v.bits), units, k.local, zone) }
	case *format.DateType:
		k.convert = func(v raw) (Cell, error) { return instant(int64(v.bits)*24*3600, 1, true, zone) }
	case *format.TimeType:
		units := float64(perSecond(m.Unit))
		k.convert = func(v raw) (Cell, error) { return RealCell(float64(int64(v.bits)) / units), nil }
	case *format.IntType:
		if m.IsSigned {
			k.convert = whole
			break
		}
		k.convert = func(v raw) (Cell, error) {
			if kind == format.Int32 {
				return RealCell(float64(uint32(v.bits))), nil
			}
			if v.bits > math.MaxInt64 {
				return Cell{Form: Text, Text: strconv.FormatUint(v.bits, 10)}, nil
			}
			return whole(v)
		}
	default:
		k.convert = whole
	}
	return k, nil
}

// mostWhole is the largest integer up to which a float64 represents all integers exactly.
const mostWhole = 1 << 53

// whole converts an integer. Large ones become texts, so that ids stay distinct.
func whole(v raw) (Cell, error) {
	if x := int64(v.bits); x < -mostWhole || x > mostWhole {
		return Cell{Form: Text, Text: strconv.FormatInt(x, 10)}, nil
	}
	return RealCell(float64(int64(v.bits))), nil
}

// instant converts a time in units since 1970. A local time is the time that a clock in the zone shows.
func instant(x, units int64, local bool, zone *time.Location) (Cell, error) {
	seconds, part := x/units, x%units
	if part < 0 {
		seconds, part = seconds-1, part+units
	}
	if local && zone != time.UTC {
		at, ok := firstTime(float64(seconds), zone)
		if !ok {
			return Cell{}, skipped(time.Unix(seconds, 0).UTC().Format(time.DateTime), zone)
		}
		seconds = int64(at)
	}
	return Cell{Form: Instant, Number: float64(seconds) + float64(part)/float64(units)}, nil
}

// julian1970 is the Julian day of 1970-01-01.
const julian1970 = 2440588

// oldTime converts a time of 96 bits: the nanosecond of the day, then the Julian day.
func oldTime(v raw) (Cell, error) {
	nanos, day := int64(binary.LittleEndian.Uint64(v.bytes)), int64(binary.LittleEndian.Uint32(v.bytes[8:]))
	return Cell{Form: Instant, Number: float64((day-julian1970)*24*3600) + float64(nanos)/1e9}, nil
}

// mostScale is the maximum number of decimal places.
const mostScale = 300

// decimal returns the conversion of numbers with fixed decimal places, stored as integers or as bytes in two's
// complement.
func decimal(kind format.Type, scale int32) (func(raw) (Cell, error), error) {
	if scale < 0 || scale > mostScale {
		return nil, fmt.Errorf("found decimals with %d places, want 0 to %d", scale, mostScale)
	}
	unit := math.Pow(10, float64(scale))
	switch kind {
	case format.Int32, format.Int64:
		return func(v raw) (Cell, error) { return RealCell(float64(int64(v.bits)) / unit), nil }, nil
	case format.ByteArray, format.FixedLenByteArray:
		return func(v raw) (Cell, error) {
			if len(v.bytes) > mostScale {
				return Cell{}, badValue(fmt.Sprintf("found a decimal of %d bytes, want at most %d", len(v.bytes),
					mostScale))
			}
			x := new(big.Int).SetBytes(v.bytes)
			if len(v.bytes) > 0 && v.bytes[0]&0x80 != 0 {
				x.Sub(x, new(big.Int).Lsh(big.NewInt(1), uint(8*len(v.bytes))))
			}
			y, _ := new(big.Float).SetInt(x).Float64()
			return RealCell(y / unit), nil
		}, nil
	}
	return nil, fmt.Errorf("found decimals stored as %s, want INT32, INT64 or bytes", kind)
}

// texts returns the conversion of bytes to texts, UUIDs or 16-bit numbers.
func texts(e *format.SchemaElement, meaning format.LogicalTypeValue) (func(raw) (Cell, error), error) {
	switch meaning.(type) {
	case *format.Float16Type:
		if e.TypeLength.V != 2 {
			return nil, fmt.Errorf("found numbers of 16 bits in %d bytes, want 2", e.TypeLength.V)
		}
		return func(v raw) (Cell, error) { return RealCell(halfFloat(binary.LittleEndian.Uint16(v.bytes))), nil }, nil
	case *format.UUIDType:
		if e.TypeLength.V != 16 {
			return nil, fmt.Errorf("found UUIDs of %d bytes, want 16", e.TypeLength.V)
		}
		return func(v raw) (Cell, error) {
			b := v.bytes
			return Cell{Form: Text, Text: fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])}, nil
		}, nil
	case *format.BsonType, *format.GeometryType, *format.GeographyType:
		return nil, fmt.Errorf("found %v, want texts, numbers, booleans or times", meaning)
	case nil, *format.StringType, *format.EnumType, *format.JsonType:
		if e.ConvertedType.Valid && e.ConvertedType.V == deprecated.Interval {
			return nil, errors.New("found intervals of time, want numbers, or times")
		}
	}
	return func(v raw) (Cell, error) {
		if !utf8.Valid(v.bytes) {
			return Cell{}, badValue(fmt.Sprintf("found %.20q, want a text in UTF-8", v.bytes))
		}
		return Cell{Form: Text, Text: string(v.bytes)}, nil
	}, nil
}
