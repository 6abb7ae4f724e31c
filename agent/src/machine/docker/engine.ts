// Access to the Docker engine: one object per socket. Each call has a deadline, and each failure is an EngineError.

import type { DialOptions } from 'docker-modem'
import type Docker from 'dockerode'
import { ENGINE } from '../../limits/docker.ts'
import type { AgentSettings } from '../../settings.ts'
import type { CallOptions } from './client.ts'
import { type EngineKind, kindOf } from './engine-kind.ts'

export interface Engine {
  readonly socket: string
  /** The client, with options for each call through it. */
  docker(options?: CallOptions): Promise<Docker>
  /** A call that the client lacks, or to which it does not pass all options. */
  dial<T>(request: DialOptions, options?: CallOptions): Promise<T>
}

export function openEngine({ dockerSocket }: Pick<AgentSettings, 'dockerSocket'>): Engine {
  const docker: Engine['docker'] = async (options = {}) => {
    const { createClient } = await import('./client.ts')
    return createClient(dockerSocket, options)
  }
  return {
    socket: dockerSocket,
    docker,
    async dial<T>(request: DialOptions, options?: CallOptions) {
      const { modem } = await docker(options)
      return new Promise<T>((resolve, reject) => {
        modem.dial(request, (error, answer) => (error ? reject(error) : resolve(answer as T)))
      })
    },
  }
}

/** By id or name; the client does not encode it. */
export const getContainer = async (
  engine: Engine,
  id: string,
  options?: CallOptions,
): Promise<Docker.Container> => (await engine.docker(options)).getContainer(encodeURIComponent(id))

export interface EngineFacts {
  version: string
  api: string
  /** 1 or 2. */
  cgroup: string
  storage: string
  dataRoot: string
  kind: EngineKind
}

const askVersion = async (engine: Engine, timeoutMs: number = ENGINE.callMs) =>
  (await engine.docker({ timeoutMs })).version()

/** Returns `known` if the engine is still the same, which is much cheaper to check. */
export async function engineFactsAgain(engine: Engine, known: EngineFacts): Promise<EngineFacts> {
  const { Version, ApiVersion } = await askVersion(engine)
  const isSame = Version === known.version && ApiVersion === known.api
  return isSame ? known : engineFacts(engine)
}

interface Info {
  CgroupVersion?: string
  Driver?: string
  DockerRootDir?: string
  SecurityOptions?: string[] | null
}

export async function engineFacts(
  engine: Engine,
  timeoutMs: number = ENGINE.callMs,
): Promise<EngineFacts> {
  const [version, info] = await Promise.all([
    askVersion(engine, timeoutMs),
    engine.docker({ timeoutMs }).then((docker) => docker.info() as Promise<Info>),
  ])
  return {
    version: version.Version,
    api: version.ApiVersion,
    cgroup: info.CgroupVersion ?? '1',
    storage: info.Driver ?? '',
    dataRoot: info.DockerRootDir ?? '/var/lib/docker',
    kind: kindOf(version, info),
  }
}

/** Whether the engine answers. */
export const isEngineUp = async (engine: Engine, timeoutMs: number): Promise<boolean> => {
  const docker = await engine.docker({ timeoutMs })
  return docker.ping().then(
    () => true,
    () => false,
  )
}
