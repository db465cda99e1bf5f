package main

import (
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// hidden stands for a password, as in the URLs of net/url.
const hidden = "xxxxx"

// print writes the configuration as a file that --config takes, saying where
// every value is from. Passwords are left out.
func (c *serveConfig) print(w io.Writer) error {
	root := &yaml.Node{Kind: yaml.MappingNode}
	c.flags.VisitAll(func(f *pflag.Flag) {
		if notInFile[f.Name] {
			return
		}
		value := flagNode(f)
		value.LineComment = c.origins[f.Name]
		if value.LineComment == "" {
			value.LineComment = "default"
		}
		root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: f.Name}, value)
	})
	text, err := yaml.Marshal(root)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "# Passwords are shown as %s.\n%s", hidden, text)
	return err
}

// flagNode is the value of a flag in YAML.
func flagNode(f *pflag.Flag) *yaml.Node {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		node := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, word := range list.GetSlice() {
			node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: word})
		}
		return node
	}
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: withoutPassword(f)}
	if kind := f.Value.Type(); kind == "int" || kind == "bool" {
		node.Tag = "!!" + kind
	}
	return node
}

// withoutPassword is the value of a flag for all to see.
func withoutPassword(f *pflag.Flag) string {
	value := f.Value.String()
	switch {
	case value == "":
	case f.Name == "requirepass":
		return hidden
	case f.Name == "upstream":
		u, err := url.Parse(value)
		if err != nil {
			return hidden
		}
		if query := u.Query(); query.Has("sentinel_password") {
			query.Set("sentinel_password", hidden)
			u.RawQuery = query.Encode()
		}
		return u.Redacted()
	}
	return value
}
