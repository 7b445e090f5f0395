package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/explain/course"
	"github.com/hippo-ssm/hippo/internal/config"
)

func newCourse() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "course",
		Short: "List the exercises of the course in docs/course, and check answers",
		Long: `List and check the exercises of docs/course, a course of eight short chapters from convolutions to Mamba.
Answers are computed when they are checked.`,
		Example: `  hippo course list
  hippo course check 1.1 1,2,3
  hippo course check 1.1 --solution`,
	}
	cmd.AddCommand(newCourseList(), newCourseCheck())
	return cmd
}

func newCourseList() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the chapters and their exercises",
		Example: "  hippo course list",
		Args:    wantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			for i, c := range course.Chapters() {
				fmt.Fprintf(out, "%d  %s (docs/course/%s)\n", i+1, c.Title, c.File)
				for _, e := range c.Exercises {
					fmt.Fprintf(out, "   %s  %s\n", e.ID, e.Question)
				}
			}
			return nil
		},
	}
}

func newCourseCheck() *cobra.Command {
	var solution bool
	cmd := &cobra.Command{
		Use:   "check EXERCISE [ANSWER]",
		Short: "Check the answer to an exercise",
		Long: `Check the answer to EXERCISE, a chapter and a number, such as 2.1. Numbers need four digits; separate
several by commas. Fractions are accepted: -3/4. After a wrong answer the status is 1, and a message says what is off.
After --, an answer may start with a minus sign.`,
		Example: `  hippo course check 2.1 0.8182
  hippo course check 4.1 -- -4,-3,-2,-1
  hippo course check 2.1 --solution`,
		Args: wantArgs(1, 2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var ids []string
			for _, c := range course.Chapters() {
				for _, e := range c.Exercises {
					ids = append(ids, cobra.CompletionWithDesc(e.ID, e.Question))
				}
			}
			if len(args) > 0 {
				ids = nil
			}
			return ids, cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		const hint = "an answer that starts with a minus sign follows --: hippo course check 3.1 -- -3/4"
		return fmt.Errorf("%w; %s", config.FlagError(c.Flags(), err), hint)
	})
	cmd.Flags().BoolVar(&solution, "solution", false, "print the answer and its derivation")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		e, err := course.Find(args[0])
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		switch {
		case solution && len(args) == 2:
			return errors.New("found an answer and --solution, want one of them")
		case solution:
			answer, err := e.Answer()
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%s\n%s: %s\n", e.Question, answer, e.Why)
			return nil
		case len(args) == 1:
			fmt.Fprintf(out, "%s\n", e.Question)
			return nil
		}
		off, err := e.Check(args[1])
		if err != nil {
			return err
		}
		if off != "" {
			return fmt.Errorf("%s: not yet: %s", e.ID, off)
		}
		fmt.Fprintf(out, "right. %s\n", e.Why)
		return nil
	}
	return cmd
}
