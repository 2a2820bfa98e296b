package configs

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// with is a layer of settings in name=value form.
func with(t *testing.T, from Source, settings ...string) Config {
	t.Helper()
	var c Config
	for _, s := range settings {
		name, val, _ := strings.Cut(s, "=")
		if err := c.Set(name, val, from); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func list(c Config) []string {
	var out []string
	for _, s := range c.NonDefaults() {
		out = append(out, s.Name+"="+s.Value+" "+s.Source.String())
	}
	return out
}

var (
	flags = Source{Origin: OriginFlag, Name: "--flag"}
	env   = Source{Origin: OriginEnv, Name: "VARIABLE"}
	file  = Source{Origin: OriginFile, Pos: Pos{"plan.json", 3, 12}}
	file2 = Source{Origin: OriginFile, Pos: Pos{"other.json", 1, 1}}
)

func TestMerge(t *testing.T) {
	for _, c := range []struct {
		why    string
		layers []Config
		want   []string
	}{
		{"nothing given", []Config{{}, Default()}, nil},
		{"each setting by its own strongest", []Config{
			with(t, flags, "budget=1GiB"),
			with(t, env, "budget=2GiB", "device=cpu"),
			with(t, file, "budget=3GiB", "device=vulkan", "level=2"),
		}, []string{"budget=1GiB --flag", "device=cpu VARIABLE", "level=2 plan.json:3:12"}},
		{"whatever the order of layers", []Config{
			with(t, file, "budget=3GiB"), with(t, flags, "budget=1GiB"), with(t, env, "budget=2GiB"),
		}, []string{"budget=1GiB --flag"}},
		{"between equals the first", []Config{
			with(t, file2, "level=1"), with(t, file, "level=2", "steps=7"),
		}, []string{"level=1 other.json:1:1", "steps=7 plan.json:3:12"}},
		{"a default given on purpose beats a weaker layer and is not listed", []Config{
			with(t, flags, "level=0"), with(t, file, "level=2"),
		}, nil},
		{"a preset is below everything that is said", []Config{
			with(t, flags, "preset=selective"), with(t, file, "strategy=optimize"),
		}, []string{"preset=selective --flag", "strategy=optimize plan.json:3:12"}},
		{"a preset fills in what is not said", []Config{
			with(t, file, "preset=full"),
		}, []string{"preset=full plan.json:3:12", "strategy=recompute-all preset full"}},
		{"the preset that wins fills in, also over one filled in before", []Config{
			with(t, flags, "preset=none"), Merge(with(t, file, "preset=full")),
		}, []string{"preset=none --flag", "strategy=keep-all preset none"}},
	} {
		if diff := cmp.Diff(c.want, list(Merge(c.layers...))); diff != "" {
			t.Errorf("%s:\n%s", c.why, diff)
		}
	}
}

// A Config is a value: setting one copy leaves the other alone.
func TestCopiesAreIndependent(t *testing.T) {
	a := with(t, flags, "level=1")
	b := a
	if err := b.Set("budget", "1GiB", env); err != nil {
		t.Fatal(err)
	}
	if _, ok := a.Source("budget"); ok || !a.Budget.IsZero() {
		t.Error("setting a copy set the original")
	}
	if from, ok := b.Source("level"); !ok || from != flags {
		t.Error("a copy lost a source")
	}
}

// Each field of Config belongs to one row of the table, and each row has a field.
func TestEverySettingHasOneRow(t *testing.T) {
	typ := reflect.TypeFor[Config]()
	owner := map[string]string{}
	for _, f := range rows {
		var c Config
		v := reflect.ValueOf(&c).Elem()
		probe := Config{}
		p := reflect.ValueOf(&probe).Elem()
		for i := range typ.NumField() {
			if typ.Field(i).IsExported() {
				fill(p.Field(i))
			}
		}
		f.copy(&c, &probe)
		var touched []string
		for i := range typ.NumField() {
			if typ.Field(i).IsExported() && !v.Field(i).IsZero() {
				touched = append(touched, typ.Field(i).Name)
			}
		}
		if len(touched) != 1 {
			t.Errorf("row %s is for %v", f.Name, touched)
			continue
		}
		if other, ok := owner[touched[0]]; ok {
			t.Errorf("rows %s and %s are both for %s", other, f.Name, touched[0])
		}
		owner[touched[0]] = f.Name
	}
	for i := range typ.NumField() {
		if n := typ.Field(i).Name; typ.Field(i).IsExported() && owner[n] == "" {
			t.Errorf("no row for %s", n)
		}
	}
	names := rowNames()
	slices.Sort(names)
	if len(slices.Compact(names)) != len(rows) {
		t.Error("two rows of one name")
	}
}

// fill makes a field differ from its zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Struct:
		fill(v.Field(0))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Uint64:
		v.SetUint(1)
	default:
		v.SetInt(1)
	}
}

// A row reads back the values that it prints.
func TestDefaultsReadBack(t *testing.T) {
	def := Default()
	for _, f := range rows {
		s := f.print(&def)
		if s == "" {
			continue
		}
		var c Config
		if err := c.Set(f.Name, s, flags); err != nil || f.print(&c) != s {
			t.Errorf("%s: default %q reads back as %q, %v", f.Name, s, f.print(&c), err)
		}
	}
}

func TestPresets(t *testing.T) {
	want := map[string]string{"none": "keep-all", "selective": "recompute-cheap", "full": "recompute-all", "auto": "auto"}
	for _, name := range presetNames {
		c, err := Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		from, ok := c.Source("strategy")
		if c.Strategy != want[name] || !ok || from != (Source{Origin: OriginPreset, Name: name}) || c.Preset != "" {
			t.Errorf("%s: %+v from %v", name, c, from)
		}
	}
	files, err := os.ReadDir("presets")
	if err != nil || len(files) != len(presetNames) {
		t.Errorf("%d files for %d presets, %v", len(files), len(presetNames), err)
	}
	_, err = Preset("selektive")
	if err == nil || !strings.Contains(err.Error(), "did you mean selective?") {
		t.Error(err)
	}
}

func TestBudgetOf(t *testing.T) {
	for _, c := range []struct {
		b    string
		base int64
		want int64
	}{
		{"1KiB", 100, 1024}, // bytes do not depend on the base
		{"60%", 100, 60},
		{"0.6", 1000, 600},
		{"50%", 3, 1},
		{"33%", 1 << 62, 1521856386081038008},
		{"100%", math.MaxInt64, math.MaxInt64},
		{"150%", math.MaxInt64, math.MaxInt64},
		{"0.001%", 10, 0},
	} {
		b, err := ParseBudget(c.b)
		if got := b.Of(c.base); err != nil || got != c.want {
			t.Errorf("%s of %d = %d, want %d (%v)", c.b, c.base, got, c.want, err)
		}
	}
	if got := (Budget{}).Of(1000); got != 0 {
		t.Errorf("no limit of 1000 = %d", got)
	}
}

func TestFormatBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1: "1 B", 1023: "1023 B", 1024: "1 KiB", 12288: "12 KiB", 12300: "12.01 KiB",
		1 << 20: "1 MiB", 1<<20 - 1: "1.00 MiB", 1<<20 - 10: "1023.99 KiB", 3 << 29: "1.50 GiB",
		1 << 40: "1 TiB", 1 << 50: "1 PiB", math.MaxInt64: "8192.00 PiB",
		-1: "-1 B", -3 << 29: "-1.50 GiB", math.MinInt64: "-8192 PiB",
	} {
		if got := FormatBytes(n); got != want {
			t.Errorf("FormatBytes(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestParseFile(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "big.json")
	if err := os.WriteFile(big, []byte(`["`+strings.Repeat("x", maxSize)+`"]`), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"testdata/wrong.json":             `testdata/wrong.json:1:13: "3" in`,
		filepath.Join(dir, "absent.json"): "absent.json: no such file or directory",
		dir:                               dir + ": is not a regular file",
		os.DevNull:                        "is not a regular file",
		big:                               "big.json: more than the 1048576 bytes a config may have",
	} {
		if _, err := ParseFile(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to say %s", err, want)
		}
	}
	c, err := ParseFile("testdata/plan.json")
	want := []string{"budget=2GiB testdata/plan.json:4:13", "config=BiasGelu+:1:-1 testdata/plan.json:2:13", "level=2 testdata/plan.json:3:12"}
	if diff := cmp.Diff(want, list(c)); diff != "" || err != nil {
		t.Error(err, diff)
	}
}
