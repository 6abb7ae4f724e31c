// Serializes what a server uses of its machine, now and in the past.
import type { ServerUsageHistory } from '@berth/shared/api'
import type { ServerFacts, UsageSpan } from '../../app/servers/facts.ts'
import { serializeUsage, time } from './fields.ts'

export const serializeFacts = (facts: ServerFacts, span: UsageSpan): ServerUsageHistory => ({
  latest: facts.latest ? serializeUsage(facts.latest) : null,
  environments: facts.environments.map((of) => ({
    id: of.environmentId,
    identifier: of.identifier,
    disk_bytes: of.diskBytes,
    memory_bytes: of.memoryBytes,
    cpu_percent: of.cpuPermille / 10,
  })),
  span,
  points: facts.points.map((point) => ({
    at: time(point.at),
    cpu_percent: point.cpuPermille / 10,
    memory_used_bytes: point.memoryUsedBytes,
    disk_used_bytes: point.diskUsedBytes,
  })),
})
