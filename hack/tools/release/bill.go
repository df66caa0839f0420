package main

import (
	"cmp"
	"debug/buildinfo"
	"os"
	"slices"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// writeBill writes, next to a binary, the CycloneDX bill of the modules that it was built from, as the binary itself tells
// them. It has neither a serial number nor the time of the day, so that the same binary has the same bill.
func writeBill(binary, version, date string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	sum, err := checksum(binary)
	if err != nil {
		return err
	}
	out, err := os.Create(binary + ".cdx.json")
	if err != nil {
		return err
	}
	defer out.Close()
	bill := billOf(info, version, date, sum)
	if err := cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bill); err != nil {
		return err
	}
	return out.Close()
}

func billOf(info *buildinfo.BuildInfo, version, date, sha256 string) *cyclonedx.BOM {
	subject := component(cyclonedx.ComponentTypeApplication, info.Main.Path, version)
	subject.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: sha256}}
	settings := []cyclonedx.Property{}
	for _, s := range info.Settings {
		if s.Key == "CGO_ENABLED" || strings.HasPrefix(s.Key, "GO") {
			settings = append(settings, cyclonedx.Property{Name: "go:build:" + s.Key, Value: s.Value})
		}
	}
	subject.Properties = &settings

	modules := []cyclonedx.Component{component(cyclonedx.ComponentTypeLibrary, "std", info.GoVersion)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component(cyclonedx.ComponentTypeLibrary, m.Path, m.Version)
		if m.Sum != "" {
			c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: m.Sum}}
		}
		modules = append(modules, c)
	}
	slices.SortFunc(modules, func(a, b cyclonedx.Component) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Version, b.Version))
	})
	refs := make([]string, len(modules))
	for i, m := range modules {
		refs[i] = m.BOMRef
	}

	bill := cyclonedx.NewBOM()
	bill.Metadata = &cyclonedx.Metadata{Timestamp: date, Component: &subject}
	bill.Components = &modules
	bill.Dependencies = &[]cyclonedx.Dependency{{Ref: subject.BOMRef, Dependencies: &refs}}
	return bill
}

func component(kind cyclonedx.ComponentType, path, version string) cyclonedx.Component {
	// In a package URL "+" begins nothing, but some readers take it for a space.
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cyclonedx.Component{BOMRef: url, Type: kind, Name: path, Version: version, PackageURL: url}
}
