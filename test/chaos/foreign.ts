// Objects on an engine that do not belong to Berth: containers, images (also nameless ones, which a global prune would
// remove), a volume with data, a network, and those of another agent. A snapshot shows whether any of them changed.
import { randomBytes } from 'node:crypto'
import { callEngine } from '../../scripts/docker-engine.ts'
import { BUSYBOX_IMAGE } from '../fixtures/docker/images.ts'

const OTHER_AGENT = { 'dev.berth.agent': 'another-agent', 'dev.berth.environment': '1' }

export class Foreign {
  readonly #socket: string
  /** Names differ between runs on one engine. */
  readonly #name = `foreign-${randomBytes(3).toString('hex')}`
  #containers: string[] = []
  #images: string[] = []

  private constructor(socket: string) {
    this.#socket = socket
  }

  static async make(socket: string): Promise<Foreign> {
    const foreign = new Foreign(socket)
    const name = foreign.#name
    await foreign.#call('POST', '/volumes/create', { Name: name })
    await foreign.#call('POST', '/networks/create', { Name: name, CheckDuplicate: true })
    const mounts = [`${name}:/data`]
    const write = ['/bin/sh', '-c', 'echo precious > /data/file']
    await foreign.#container('stopped', write, { mounts })
    await foreign.#container('running', ['sleep', '86400'], {})
    await foreign.#container('others', ['sleep', '86400'], { labels: OTHER_AGENT })
    await foreign.#commit('stopped', `&repo=${name}&tag=named`)
    await foreign.#commit('stopped', '&changes=LABEL%20nameless%3D1')
    return foreign
  }

  async #call<T>(method: string, path: string, body?: object): Promise<T> {
    const text = body && JSON.stringify(body)
    const answer = await callEngine(this.#socket, method, path, text)
    if (answer.status >= 400) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return (answer.text ? JSON.parse(answer.text) : {}) as T
  }

  async #container(
    kind: string,
    command: string[],
    { mounts = [], labels = {} }: { mounts?: string[]; labels?: Record<string, string> },
  ): Promise<void> {
    const name = `${this.#name}-${kind}`
    const { Id } = await this.#call<{ Id: string }>('POST', `/containers/create?name=${name}`, {
      Image: BUSYBOX_IMAGE,
      Cmd: command,
      Labels: labels,
      HostConfig: { Binds: mounts, NetworkMode: 'none', Init: true },
    })
    await this.#call('POST', `/containers/${Id}/start`)
    if (kind === 'stopped') await this.#call('POST', `/containers/${Id}/wait`)
    this.#containers.push(Id)
  }

  async #commit(kind: string, more: string): Promise<void> {
    const path = `/commit?container=${this.#name}-${kind}${more}`
    const { Id } = await this.#call<{ Id: string }>('POST', path, {})
    this.#images.push(Id)
  }

  /** Everything that must stay unchanged, as one text. */
  async snapshot(): Promise<string> {
    interface Container {
      Id: string
      RestartCount: number
      State: { Status: string; StartedAt: string; ExitCode: number }
    }
    const lines: unknown[] = []
    for (const id of this.#containers) {
      const { Id, State, RestartCount } = await this.#call<Container>(
        'GET',
        `/containers/${id}/json`,
      )
      lines.push([Id, State.Status, State.StartedAt, State.ExitCode, RestartCount])
    }
    for (const image of [...this.#images, BUSYBOX_IMAGE]) {
      const { Id, Size, RepoTags } = await this.#call<{
        Id: string
        Size: number
        RepoTags: string[]
      }>('GET', `/images/${image}/json`)
      lines.push([Id, Size, RepoTags])
    }
    const volume = await this.#call<{ CreatedAt: string }>('GET', `/volumes/${this.#name}`)
    const network = await this.#call<{ Id: string }>('GET', `/networks/${this.#name}`)
    const archive = `/containers/${this.#name}-stopped/archive?path=/data/file`
    lines.push(volume.CreatedAt, network.Id, (await callEngine(this.#socket, 'GET', archive)).text)
    return lines.map((line) => JSON.stringify(line)).join('\n')
  }

  async remove(): Promise<void> {
    const remove = (path: string) => callEngine(this.#socket, 'DELETE', path)
    for (const id of this.#containers) await remove(`/containers/${id}?force=1`)
    for (const id of this.#images) await remove(`/images/${id}?force=1`)
    await remove(`/volumes/${this.#name}`)
    await remove(`/networks/${this.#name}`)
  }
}
