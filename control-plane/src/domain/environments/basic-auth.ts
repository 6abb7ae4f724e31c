// Which Basic Auth applies to an environment: its own, the project's, or none.
interface EnvironmentAuth {
  basicAuthMode: 'inherit' | 'own' | 'off'
  basicAuthUsername: string | null
}

interface ProjectAuth {
  basicAuthUsername: string | null
}

export interface EffectiveAuth {
  mode: 'inherit' | 'own' | 'off'
  enabled: boolean
  username: string | null
  /** Where the password comes from. */
  from: 'environment' | 'project' | null
}

export function effectiveAuth(environment: EnvironmentAuth, project: ProjectAuth): EffectiveAuth {
  const mode = environment.basicAuthMode
  const from = mode === 'own' ? 'environment' : mode === 'inherit' ? 'project' : null
  const username =
    from === 'environment'
      ? environment.basicAuthUsername
      : from === 'project'
        ? project.basicAuthUsername
        : null
  return username === null
    ? { mode, enabled: false, username: null, from: null }
    : { mode, enabled: true, username, from }
}
