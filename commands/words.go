package commands

import "fmt"

// AsEvalSHA turns the words of a limiter command into those of the EVALSHA that
// it becomes, for who speaks to a Redis without a cellproxy. Any other command
// stays as it is.
func AsEvalSHA(words []string) ([]string, error) {
	return rewrite(words, (*Call).AppendEvalSHA)
}

// AsEval does so with the script's text, which leaves the script loaded.
func AsEval(words []string) ([]string, error) {
	return rewrite(words, (*Call).AppendEval)
}

func rewrite(words []string, appendTo func(*Call, []byte) []byte) ([]string, error) {
	args := make([][]byte, len(words))
	for i, word := range words {
		args[i] = []byte(word)
	}
	command := Lookup(args[0])
	if command == nil {
		return words, nil
	}
	var call Call
	if err := command.Parse(args, &call); err != nil {
		return nil, fmt.Errorf("%s: %w", command.Name, err)
	}
	args = splitArray(appendTo(&call, nil))
	rewritten := make([]string, len(args))
	for i, arg := range args {
		rewritten[i] = string(arg)
	}
	return rewritten, nil
}
