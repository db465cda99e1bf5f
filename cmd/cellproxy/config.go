package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// loadConfig returns the configuration of serve: what was given on the command
// line, else what the environment says, else the file, else the defaults. It
// leaves given as it is, so that it can be called again for what the file has
// become.
func loadConfig(given *pflag.FlagSet) (*serveConfig, error) {
	config := &serveConfig{flags: pflag.NewFlagSet("serve", pflag.ContinueOnError), origins: make(map[string]string)}
	flags := config.flags
	config.addFlags(flags)
	given.Visit(func(f *pflag.Flag) {
		if flags.Lookup(f.Name) != nil {
			flags.Set(f.Name, flagText(f))
		}
	})
	config.note(func(name string) string { return "--" + name })
	if err := environment(flags); err != nil {
		return nil, err
	}
	config.note(variable)
	if config.file != "" {
		if err := setFromFile(flags, config.file); err != nil {
			return nil, usageError{err}
		}
		config.note(func(string) string { return config.file })
	}
	if err := config.validate(); err != nil {
		return nil, usageError{err}
	}
	return config, nil
}

// note remembers where the flags that have got values since the last call have
// them from.
func (c *serveConfig) note(origin func(name string) string) {
	c.flags.Visit(func(f *pflag.Flag) {
		if c.origins[f.Name] == "" {
			c.origins[f.Name] = origin(f.Name)
		}
	})
}

// flagText is the value of a flag as it can be set.
func flagText(f *pflag.Flag) string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return strings.Join(list.GetSlice(), ",")
	}
	return f.Value.String()
}

// errNot says what a value is not, by the type of flag.
var errNot = map[string]error{
	"int": errors.New("not a whole number"), "bool": errors.New("neither true nor false"),
	"duration": errors.New("not a duration such as 10s"), "string": errors.New("not a text"),
	"stringSlice": errors.New("not a list of words"),
}

// notInFile are the flags that a file can't set.
var notInFile = map[string]bool{"config": true, "print-config": true, "help": true}

// setFromFile sets the flags that have no value yet from a YAML file whose keys
// are their names.
func setFromFile(flags *pflag.FlagSet, path string) error {
	text, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot read --config: %w", err)
	}
	defer text.Close()
	var document yaml.Node
	decoder := yaml.NewDecoder(text)
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return fmt.Errorf("invalid --config %s: %w", path, err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("invalid --config %s: more than one document", path)
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("invalid --config %s:%d: not a list of names and values", path, root.Line)
	}
	seen := make(map[string]bool)
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if seen[key.Value] {
			err = errors.New("is there twice")
		} else {
			err = setFromNode(flags, key.Value, value)
		}
		if err != nil {
			return fmt.Errorf("invalid --config %s:%d: %s: %w", path, key.Line, key.Value, err)
		}
		seen[key.Value] = true
	}
	return nil
}

// setFromNode sets one flag, unless it has a value. What is wrong with the value
// is an error all the same.
func setFromNode(flags *pflag.FlagSet, name string, value *yaml.Node) error {
	f := flags.Lookup(name)
	if f == nil || notInFile[name] {
		return errors.New("no such setting")
	}
	text, err := nodeText(value, f)
	if err != nil {
		return err
	}
	before, changed := flagText(f), f.Changed
	if err := flags.Set(name, text); err != nil {
		return errNot[f.Value.Type()] // its own words may hold a password
	}
	if changed {
		return setFlag(f, before)
	}
	return nil
}

// setFlag is Set, but for lists, to which that would add.
func setFlag(f *pflag.Flag, text string) error {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		if err := list.Replace(nil); err != nil || text == "" {
			return err
		}
	}
	return f.Value.Set(text)
}

// nodeText is a value of the file as the flag would be given it.
func nodeText(value *yaml.Node, f *pflag.Flag) (string, error) {
	_, isList := f.Value.(pflag.SliceValue)
	switch {
	case value.Kind == yaml.ScalarNode && value.Tag != "!!null":
		return value.Value, nil
	case value.Kind == yaml.SequenceNode && isList:
		var words []string
		for _, word := range value.Content {
			if word.Kind != yaml.ScalarNode || strings.Contains(word.Value, ",") {
				return "", errNot["stringSlice"]
			}
			words = append(words, word.Value)
		}
		return strings.Join(words, ","), nil
	}
	return "", errNot[f.Value.Type()]
}
