// What a service file says, for a person who decides about a new project: its recipes, services and ports. PURE.
import { RECIPES, type Recipe } from '@berth/shared'
import type { ManualService, ServiceFile } from '@berth/shared/service-file'

interface ServiceSummary {
  name: string
  recipe: Recipe
  /** "builds ./Dockerfile", "image postgres:16", "runs node server.js". */
  from: string
  /** 3000, or "chosen by Berth". Null: it has no address. */
  port: string | null
}

export interface FileSummary {
  recipes: Recipe[]
  services: ServiceSummary[]
  /** Their names. */
  actions: string[]
}

const MOST_CHARACTERS = 100
const short = (text: string): string =>
  text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text

function portOf({ target }: ManualService): string | null {
  if (target === null) return null
  if (target.kind === 'port') return String(target.port)
  return target.kind === 'auto' ? 'chosen by Berth' : target.path
}

export function summarizeFile(file: ServiceFile | null | undefined): FileSummary {
  const docker = file?.docker?.services ?? []
  const manual = file?.manual?.services ?? []
  return {
    recipes: RECIPES.filter((recipe) => file?.[recipe]),
    services: [
      ...docker.map((service) => ({
        name: service.name,
        recipe: 'docker' as const,
        from: short(
          service.build ? `builds ${service.build.dockerfile}` : `image ${service.image ?? ''}`,
        ),
        port: service.port === null ? null : String(service.port),
      })),
      ...manual.map((service) => ({
        name: service.name,
        recipe: 'manual' as const,
        from: short(service.run ? `runs ${service.run.command}` : 'not started by Berth'),
        port: portOf(service),
      })),
    ],
    actions: (file?.actions ?? []).map(({ name }) => name),
  }
}

/** What `berth init` would begin with, by the first file that is there. */
export const GUESSES: readonly { file: string; recipe: Recipe; words: string }[] = [
  { file: 'Dockerfile', recipe: 'docker', words: 'builds the Dockerfile' },
  { file: 'compose.yaml', recipe: 'docker', words: 'takes over the services of compose.yaml' },
  {
    file: 'docker-compose.yml',
    recipe: 'docker',
    words: 'takes over the services of docker-compose.yml',
  },
  { file: 'Procfile', recipe: 'manual', words: 'runs the lines of the Procfile' },
  { file: 'package.json', recipe: 'docker', words: 'builds a Node.js application' },
]
