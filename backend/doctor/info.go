package doctor

import (
	"context"
	"strconv"
	"strings"
)

// info is what INFO or CLUSTER INFO tell, by name.
type info map[string]string

func parseInfo(text string) info {
	told := make(info)
	for _, line := range strings.Split(text, "\n") {
		if name, value, found := strings.Cut(strings.TrimSuffix(line, "\r"), ":"); found {
			told[name] = value
		}
	}
	return told
}

// number returns a figure, and whether it is known.
func (i info) number(name string) (int64, bool) {
	n, err := strconv.ParseInt(i[name], 10, 64)
	return n, err == nil
}

// setting returns what CONFIG GET says, and whether it says anything: managed
// services often refuse.
func (e *exam) setting(ctx context.Context, name string) (string, bool) {
	values, err := e.client.ConfigGet(ctx, name).Result()
	value, found := values[name]
	return value, err == nil && found
}

// unknown is the finding of a check whose question is not answered.
func unknown(asked string) Finding {
	return Finding{Level: Unknown, Text: "the upstream does not tell " + asked}
}
