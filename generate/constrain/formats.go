package constrain

import (
	"maps"
	"slices"
	"strings"
)

// patterned lists formats that zod always emits together with a pattern, which describes them. anyText lists formats
// that any text satisfies.
var (
	patterned = []string{"base64", "base64url", "cidrv4", "cidrv6", "cuid", "cuid2", "e164", "emoji", "ends_with",
		"hex", "includes", "ksuid", "lowercase", "mac", "nanoid", "regex", "starts_with", "ulid", "uppercase", "xid",
		"md5_hex", "sha1_hex", "sha256_hex", "sha384_hex", "sha512_hex"}
	anyText = []string{"binary", "password", "path"}
)

// formats maps the formats of strings to regular expressions for the whole string. Days are limited to those that every
// month has, and leap seconds are left out. So written texts are valid, but not every valid text can be written.
// narrower maps patterns of zod, whose matches of bounded length would need too many states, to expressions that match
// less.
var formats, narrower = func() (formats, narrower map[string]string) {
	const (
		date   = `[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])`
		clock  = `(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])`
		octet  = `(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])`
		ipv4   = octet + `(?:\.` + octet + `){3}`
		label  = `[A-Za-z0-9]{1,16}(?:-[A-Za-z0-9]{1,16})?` // not two hyphens, which start Punycode
		host   = label + `(?:\.` + label + `){0,3}`
		group  = `[0-9a-fA-F]{1,4}`
		groups = group + `(?::` + group + `){7}`
		path   = `(?:/[A-Za-z0-9._~-]{0,64}){0,8}`
		query  = `(?:\?[A-Za-z0-9._~=&-]{0,128})?`
		some   = `[0-9]{1,4}` // number in a duration
		day    = some + `D`
		month  = some + `M(?:` + day + `)?`
		second = some + `S`
		minute = some + `M(?:` + second + `)?`
		times  = `T(?:` + some + `H(?:` + minute + `)?|` + minute + `|` + second + `)`
		steps  = `(?:/(?:[^~/]|~[01])*)*` // steps of a JSON pointer
	)
	uuid := func(version string) string {
		return `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-` + version + `[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}`
	}
	narrower = map[string]string{
		`^(?=.{1,253}\.?$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?` +
			`(?:\.[a-zA-Z0-9](?:[-0-9a-zA-Z]{0,61}[0-9a-zA-Z])?)*\.?$`: host,
		`^(?:[A-Za-z0-9_'+\-]+\.)*[A-Za-z0-9_'+\-]*[A-Za-z0-9_+-]@` +
			`(?:[A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$`: `[A-Za-z0-9_+-]{1,20}(?:\.[A-Za-z0-9_+-]{1,20}){0,2}@` +
			`(?:` + label + `\.){1,3}[A-Za-z]{2,8}`,
	}
	formats = map[string]string{
		"date": date, "time": clock, "date-time": date + "T" + clock,
		"duration": `P(?:` + some + `W|(?:` + some + `Y(?:` + month + `)?|` + month + `|` + day + `)(?:` + times +
			`)?|` + times + `)`,
		"uuid":  `[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`,
		"uuid1": uuid("1"), "uuid3": uuid("3"), "uuid4": uuid("4"), "uuid5": uuid("5"), "uuid6": uuid("6"),
		"uuid7": uuid("7"), "uuid8": uuid("8"),
		"base64": `(?:[0-9a-zA-Z+/]{4})*(?:[0-9a-zA-Z+/]{2}==|[0-9a-zA-Z+/]{3}=)?`,
		"jwt":    `eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{8,}`,
		"ipv4":   ipv4, "ipv6": groups + `|::(?:` + group + `(?::` + group + `){0,5})?`, "hostname": host,
		"email": `[A-Za-z0-9_+-]{1,20}(?:\.[A-Za-z0-9_+-]{1,20}){0,2}@` + host,
		"uri":   `https?://` + host + `(?::[0-9]{1,4})?` + path + query,

		"uri-reference": path + query, "json-pointer": steps,
		"relative-json-pointer": `(?:0|[1-9][0-9]{0,3})(?:#|` + steps + `)`,
	}
	for name, wider := range map[string]string{"email": "idn-email", "hostname": "idn-hostname", "uri": "iri",
		"uri-reference": "iri-reference"} {
		formats[wider] = formats[name]
	}
	formats["uri-template"] = formats["uri"]
	return formats, narrower
}()

// matches adds a pattern or a format to the node. alone reports that there is no other pattern.
func (n *node) matches(key, at string, v any, alone bool) {
	text, ok := v.(string)
	if !ok {
		fail(at, "found %s, want a string", show(v))
	}
	if key == "pattern" {
		p := newPattern(at, text, false)
		if by, ok := narrower[text]; ok {
			p.narrow = newPattern(at, by, true)
		}
		n.patterns = append(n.patterns, p)
		return
	}
	if slices.Contains(anyText, text) || slices.Contains(patterned, text) && !alone {
		return
	}
	expression, ok := formats[text]
	if !ok {
		fail(at, "found the format %.40q, want one of %s, or a pattern", text,
			strings.Join(slices.Sorted(maps.Keys(formats)), ", "))
	}
	n.patterns = append(n.patterns, newPattern(at, expression, true))
}
