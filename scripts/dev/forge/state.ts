// What the forge of `npm start` remembers beside git's own data: one file, written whole.
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'

export interface Pull {
  number: number
  title: string
  author: string
  branch: string
  base: string
  head: string
  state: 'open' | 'closed'
  merged: boolean
  updatedAt: string
}

export interface Hook {
  id: number
  url: string
  secret: string
  active: boolean
  events: string[]
}

export interface Key {
  id: number
  title: string
  key: string
}

export interface Status {
  id: number
  sha: string
  state: string
  context: string
  description: string
  target_url: string
}

export interface Comment {
  id: number
  number: number
  body: string
}

export interface Repository {
  id: number
  /** The owner and the name, as in its address. */
  name: string
  pulls: Pull[]
  hooks: Hook[]
  keys: Key[]
  statuses: Status[]
  comments: Comment[]
}

const REPOSITORIES = 100
/** The oldest ones of each list go first. */
const KEPT = 200

export class State {
  readonly #file: string
  #lastId = 0
  repositories: Repository[] = []

  constructor(file: string) {
    this.#file = file
    if (!existsSync(file)) return
    const kept = JSON.parse(readFileSync(file, 'utf8')) as State & { lastId: number }
    this.repositories = kept.repositories
    this.#lastId = kept.lastId
  }

  nextId(): number {
    this.#lastId += 1
    return this.#lastId
  }

  find(name: string): Repository | undefined {
    return this.repositories.find((one) => one.name.toLowerCase() === name.toLowerCase())
  }

  add(name: string): Repository {
    if (this.repositories.length >= REPOSITORIES) {
      throw new Error(`this forge keeps at most ${REPOSITORIES} repositories`)
    }
    const empty = { pulls: [], hooks: [], keys: [], statuses: [], comments: [] }
    const made = { id: this.nextId(), name, ...empty }
    this.repositories.push(made)
    this.save()
    return made
  }

  save(): void {
    for (const one of this.repositories) {
      one.statuses = one.statuses.slice(-KEPT)
      one.comments = one.comments.slice(-KEPT)
      one.pulls = one.pulls.slice(-KEPT)
    }
    const text = JSON.stringify({ lastId: this.#lastId, repositories: this.repositories })
    writeFileSync(`${this.#file}.new`, text, { mode: 0o600 })
    renameSync(`${this.#file}.new`, this.#file)
  }
}
