// The values that a build gets: its arguments with their references replaced, its secrets, its key. PURE. Only names in
// the file reach a build, and a build of a fork's code gets no value that a person set.
import { type DockerService, expandReferences, referencesIn } from '@berth/shared/service-file'
import type { Values } from './variable-files.ts'

export interface BuildSources {
  custom: Values
  system: Readonly<Record<string, string>>
  /** Addresses of services, without a slash at the end. */
  addresses: Values
  isFork: boolean
}

export interface BuildValues {
  args: Record<string, string>
  secrets: Map<string, string>
  wantsKey: boolean
  /** Custom variables that the file names and that are not set. */
  missing: string[]
  /** What a fork's build was not given. */
  withheld: string[]
}

type Build = NonNullable<DockerService['build']>

export function resolveBuild(build: Build, sources: BuildSources): BuildValues {
  const { custom, system, addresses, isFork } = sources
  const inArguments = Object.values(build.args)
    .flatMap(referencesIn)
    .flatMap(({ reference }) => (reference?.kind === 'custom' ? [reference.key] : []))
  const named = [...new Set([...build.secrets, ...inArguments])]
  const given = isFork ? new Map<string, string>() : custom
  const expand = (text: string): string =>
    expandReferences(text, (reference) => {
      if (reference.kind === 'system') return system[reference.name] ?? ''
      if (reference.kind === 'address') return addresses.get(reference.service) ?? ''
      return given.get(reference.key) ?? ''
    })
  const args = Object.entries(build.args).map(([key, text]) => [key, expand(text)])
  return {
    args: Object.fromEntries(args),
    secrets: new Map(
      build.secrets.flatMap((key) => {
        const value = given.get(key)
        return value === undefined ? [] : [[key, value]]
      }),
    ),
    wantsKey: build.ssh && !isFork,
    missing: isFork ? [] : named.filter((key) => !given.has(key)),
    withheld: isFork ? [...named, ...(build.ssh ? ['the deploy key'] : [])] : [],
  }
}
