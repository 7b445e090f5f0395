package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// manifest holds the fields of a Kubernetes object that TestManifests reads.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Selector       any
		ScaleTargetRef struct{ Name string } `yaml:"scaleTargetRef"`
		Metrics        []struct {
			Pods struct{ Metric struct{ Name string } }
		}
		Ports []struct {
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []struct {
					Env            []struct{ Name, Value string }
					Ports          []struct{ Name string }
					ReadinessProbe struct {
						HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
					} `yaml:"readinessProbe"`
				}
			}
		}
	}
}

// TestManifests checks that the parts of dist/kubernetes.yaml fit together, and that the time in which a server ends
// fits into Kubernetes' grace period.
func TestManifests(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "dist", "kubernetes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]manifest{}
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var m manifest
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all[m.Kind] = m
	}
	of := all["Deployment"].Spec.Template
	if len(all) != 5 || len(of.Spec.Containers) != 1 || of.Metadata.Labels["app"] != "hippo" {
		t.Fatalf("found %d kinds of objects, and %+v", len(all), of)
	}
	c := of.Spec.Containers[0]
	var ports []string
	for _, p := range c.Ports {
		ports = append(ports, p.Name)
	}
	last := 15 * time.Second // for clients that do not read
	for _, e := range c.Env {
		if slices.Contains([]string{"HIPPO_SERVE_DRAIN_DELAY", "HIPPO_SERVE_GRACE"}, e.Name) {
			d, err := time.ParseDuration(e.Value)
			if err != nil {
				t.Error(err)
			}
			last += d
		}
	}
	if grace := time.Duration(of.Spec.Grace) * time.Second; last < 20*time.Second || grace < last {
		t.Errorf("the server may take %v to end, and has %v", last, grace)
	}
	probe := c.ReadinessProbe.HTTPGet
	if probe.Path != "/ready" || !slices.Contains(ports, probe.Port) ||
		!slices.Contains(ports, all["Service"].Spec.Ports[0].TargetPort) {
		t.Errorf("the ports are %q, ready is asked at %+v", ports, probe)
	}
	scaler := all["HorizontalPodAutoscaler"].Spec
	if scaler.ScaleTargetRef.Name != all["Deployment"].Metadata.Name ||
		scaler.Metrics[0].Pods.Metric.Name != "hippo_requests_waiting" {
		t.Errorf("the autoscaler has %+v", scaler)
	}
}

// TestManifestsAreValid checks that the objects of dist/kubernetes.yaml have only fields that Kubernetes has, with
// values of the right types, and all required fields. testdata/kubernetes.json names the source of the schema.
func TestManifestsAreValid(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("testdata", "kubernetes.json"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join("..", "..", "dist", "kubernetes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	check := func(text string) (all int, err error) {
		for d := yaml.NewDecoder(strings.NewReader(text)); ; all++ {
			var v any
			if err := d.Decode(&v); errors.Is(err, io.EOF) {
				return all, nil
			} else if err != nil {
				return all, err
			}
			data, err := json.Marshal(v)
			if err != nil {
				return all, err
			}
			if v, err = jsonschema.UnmarshalJSON(bytes.NewReader(data)); err == nil {
				err = schema.Validate(v)
			}
			if err != nil {
				return all, err
			}
		}
	}
	if n, err := check(string(data)); n != 5 || err != nil {
		t.Errorf("after %d objects: %v", n, err)
	}
	for from, to := range map[string]string{
		"containerPort: 8080":               "containerport: 8080",       // no such field
		"containerPort: 6060":               `containerPort: "admin"`,    // another type
		"maxReplicas: 10":                   "",                          // required
		"maxUnavailable: 1":                 "maxUnavailable: [1]",       // neither a number nor a text
		"autoscaling/v2":                    "autoscaling/v2beta2",       // another version
		"capabilities: {drop: [ALL]}":       "capabilities: {drop: ALL}", // not a list
		"terminationGracePeriodSeconds: 90": "terminationGracePeriodSeconds: 90s",
	} {
		wrong := strings.Replace(string(data), from, to, 1)
		if _, err := check(wrong); err == nil || wrong == string(data) {
			t.Errorf("%q in place of %q is taken", to, from)
		}
	}
}
