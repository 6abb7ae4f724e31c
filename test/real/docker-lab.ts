// A server with a Docker engine, an edge and a Caddy of its own, for one test file: deployments with the docker recipe,
// requests through the proxy, and what is left in the engine. `close` leaves nothing behind.
import { Recipe } from '@berth/shared/wire'
import {
  listOwnedContainers,
  type OwnedContainer,
  removeContainer,
} from '../../agent/src/exec/docker/containers.ts'
import { type Engine, openEngine } from '../../agent/src/exec/docker/engine.ts'
import { listOwnedImages, removeImage } from '../../agent/src/exec/docker/images.ts'
import { listOwnedNetworks, removeNetwork } from '../../agent/src/exec/docker/networks.ts'
import { listOwnedVolumes, removeVolume } from '../../agent/src/exec/docker/volumes.ts'
import { stopProxy } from '../../agent/src/exec/proxy/care.ts'
import type { DeployRequest } from './agent-host.ts'
import type { Deployment, Files, Repository } from './deployment.ts'
import { ProxyHost } from './proxy-host.ts'

export class DockerHost extends ProxyHost {
  readonly engine: Engine = openEngine(this.settings)

  static async open(): Promise<DockerHost> {
    const host = new DockerHost()
    await host.startProxy()
    return host
  }

  /** With the docker recipe. */
  run(repository: Pick<Repository, 'url'>, request: DeployRequest = {}): Promise<Deployment> {
    return this.deploy(repository, { recipe: Recipe.DOCKER, ...request })
  }

  begin(repository: Pick<Repository, 'url'>, request: DeployRequest = {}): Deployment {
    return this.start(repository, { recipe: Recipe.DOCKER, ...request })
  }

  containers(environmentId?: number): Promise<OwnedContainer[]> {
    return listOwnedContainers(this.engine, this.settings, environmentId)
  }

  /** Names of everything of an environment in the engine. */
  async objects(environmentId?: number): Promise<string[]> {
    const { engine, settings } = this
    const images = await listOwnedImages(engine, settings, environmentId)
    return [
      ...(await this.containers(environmentId)).map(({ name, state }) => `${name} ${state}`),
      ...(await listOwnedNetworks(engine, settings, environmentId)).map(({ name }) => name),
      ...(await listOwnedVolumes(engine, settings, environmentId)).map(({ name }) => name),
      ...images.flatMap(({ id, names }) => (names.length > 0 ? names : [id])),
    ].sort()
  }

  override async close(): Promise<void> {
    const { engine, settings } = this
    await stopProxy(settings) // before its containers: nobody is led to what is gone
    for (const { id } of await this.containers()) await removeContainer(engine, id)
    for (const { name } of await listOwnedNetworks(engine, settings)) {
      await removeNetwork(engine, settings, name)
    }
    for (const { name } of await listOwnedVolumes(engine, settings)) {
      await removeVolume(engine, name)
    }
    for (const { id, names } of await listOwnedImages(engine, settings)) {
      for (const name of names.length > 0 ? names : [id]) await removeImage(engine, name)
    }
    await super.close()
  }
}

/** busybox httpd that answers with its version. */
export const httpd = (version: string, more: Files = {}): Files => ({
  'www/index.html': `version ${version}\n`,
  Dockerfile: [
    'FROM berth-test/busybox',
    'COPY www /www',
    'CMD ["/bin/sh", "-c", "exec httpd -f -p $PORT -h /www"]',
    '',
  ].join('\n'),
  '.service.yml': 'docker: { services: { web: { build: ., port: 8080, health: / } } }\n',
  ...more,
})
