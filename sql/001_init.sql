-- SPDX-License-Identifier: Apache-2.0
--
-- Tables, roles and row security of the control plane.
--
-- Contract of the runner (`caisson migrate`; see README.md): the numbered files
-- of this folder are applied in order, each in one transaction together with
-- its row in caisson.schema_migrations, under pg_advisory_lock(1128352083).
-- A file that was applied is never changed afterwards.
--
-- Desired state is here; everything else can die. Whatever a client may be told
-- commits synchronously: intents, and the observed states that answer them.
-- Heartbeats, leases and progress do not, because they are repeated. Nothing
-- in here NOTIFYs: it would take a database-wide lock across every commit a
-- client waits for.

DO $$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'caisson_owner')
	THEN
		CREATE ROLE caisson_owner NOLOGIN;
	END IF;
	IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'caisson_api') THEN
		CREATE ROLE caisson_api LOGIN;
	END IF;
	IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'caisson_controller')
	THEN
		CREATE ROLE caisson_controller LOGIN;
	END IF;
END $$;

CREATE SCHEMA IF NOT EXISTS caisson;
ALTER SCHEMA caisson OWNER TO caisson_owner;
GRANT USAGE ON SCHEMA caisson TO caisson_api, caisson_controller;

-- The runner makes this table before the first file if it is absent.
CREATE TABLE IF NOT EXISTS caisson.schema_migrations (
	version    integer PRIMARY KEY,
	name       text NOT NULL,
	sha256     text NOT NULL,
	applied_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE caisson.schema_migrations OWNER TO caisson_owner;

SET LOCAL ROLE caisson_owner;

-- One row. The epoch changes only when the database comes back from a backup
-- (`UPDATE caisson.cluster SET epoch = epoch + 1`): nodes that remember a
-- higher one quarantine what they do not find here instead of killing it.
CREATE TABLE caisson.cluster (
	one        boolean PRIMARY KEY DEFAULT true CHECK (one),
	epoch      bigint NOT NULL DEFAULT 1,
	-- Keys the hashes of idempotent bodies, the same in every API process.
	secret     bytea NOT NULL DEFAULT decode(
		replace(gen_random_uuid()::text || gen_random_uuid()::text,
			'-', ''), 'hex'),
	created_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO caisson.cluster DEFAULT VALUES;

CREATE TABLE caisson.tenants (
	id         text PRIMARY KEY, -- ten_ + 20
	seq        bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
	name       text NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now(),
	-- from then on its keys are dead and its sandboxes end
	deleted_at timestamptz
);
CREATE UNIQUE INDEX tenants_name ON caisson.tenants (name)
	WHERE deleted_at IS NULL;

CREATE TABLE caisson.projects (
	id         text PRIMARY KEY, -- prj_ + 20
	seq        bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
	tenant     text NOT NULL REFERENCES caisson.tenants,
	name       text NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now(),
	UNIQUE (tenant, name)
);

-- A key is `e2b_` + 40 hex digits. Its first 12 characters are the public
-- prefix by which it is found; sha256 is over the whole key.
CREATE TABLE caisson.api_keys (
	id         text PRIMARY KEY, -- key_ + 20
	seq        bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
	tenant     text NOT NULL REFERENCES caisson.tenants,
	project    text NOT NULL REFERENCES caisson.projects,
	name       text NOT NULL,
	role       text NOT NULL
		CHECK (role IN ('viewer', 'developer', 'admin', 'operator')),
	prefix     text NOT NULL UNIQUE,
	sha256     bytea NOT NULL CHECK (length(sha256) = 32),
	created_at timestamptz NOT NULL DEFAULT now(),
	revoked_at timestamptz
);
CREATE INDEX ON caisson.api_keys (project, seq);

-- public: every tenant may use and read it (templates shipped by an operator).
CREATE TABLE caisson.templates (
	tenant     text NOT NULL REFERENCES caisson.tenants,
	project    text NOT NULL REFERENCES caisson.projects,
	name       text NOT NULL,
	seq        bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
	public     boolean NOT NULL DEFAULT false,
	generation bigint NOT NULL DEFAULT 1, -- its tags are part of it
	created_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (project, name)
);
CREATE INDEX ON caisson.templates (name) WHERE public;

-- Immutable: named by the SHA-256 of its canonical manifest.
CREATE TABLE caisson.template_releases (
	tenant     text NOT NULL REFERENCES caisson.tenants,
	project    text NOT NULL REFERENCES caisson.projects,
	digest     text NOT NULL CHECK (digest ~ '^sha256:[0-9a-f]{64}$'),
	manifest   jsonb NOT NULL,
	template   text NOT NULL,
	public     boolean NOT NULL DEFAULT false,
	created_by text NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (project, digest)
);
CREATE INDEX ON caisson.template_releases (digest);

CREATE TABLE caisson.tags (
	tenant     text NOT NULL,
	project    text NOT NULL,
	template   text NOT NULL,
	tag        text NOT NULL,
	release    text NOT NULL,
	generation bigint NOT NULL DEFAULT 1,
	public     boolean NOT NULL DEFAULT false,
	moved_at   timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (project, template, tag),
	FOREIGN KEY (project, template)
		REFERENCES caisson.templates (project, name) ON DELETE CASCADE,
	FOREIGN KEY (project, release)
		REFERENCES caisson.template_releases (project, digest)
);

CREATE TABLE caisson.nodes (
	name            text PRIMARY KEY,
	incarnation     text NOT NULL,
	version         text NOT NULL,
	rpc             text NOT NULL, -- path of sandboxd.sock
	data            text NOT NULL, -- path of sandboxd-data.sock
	engine          text NOT NULL,
	isolation       text NOT NULL
		CHECK (isolation IN ('hardware', 'software', 'none')),
	reason          text NOT NULL DEFAULT '',
	state           text NOT NULL DEFAULT 'up'
		CHECK (state IN ('up', 'cordoned', 'down')),
	slots           integer NOT NULL DEFAULT 0,
	memory_mib      bigint NOT NULL DEFAULT 0,
	vcpus           integer NOT NULL DEFAULT 0,
	used_sandboxes  integer NOT NULL DEFAULT 0,
	used_slots      integer NOT NULL DEFAULT 0,
	used_memory_mib bigint NOT NULL DEFAULT 0,
	waiting_vmms    integer NOT NULL DEFAULT 0,
	cluster_epoch   bigint NOT NULL DEFAULT 0,
	-- the controller that follows this node's events, and up to where
	owner           text,
	owner_until     timestamptz,
	events_after    bigint NOT NULL DEFAULT 0,
	-- the node is trusted to be alive until then
	lease_until     timestamptz NOT NULL DEFAULT now(),
	heartbeat_at    timestamptz NOT NULL DEFAULT now(),
	created_at      timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE caisson.sandboxes (
	id                  text PRIMARY KEY, -- sb + 20
	seq                 bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
	-- the project's foreign key implies it; one hot row less to lock
	tenant              text NOT NULL,
	project             text NOT NULL REFERENCES caisson.projects,
	name                text,
	labels              jsonb NOT NULL DEFAULT '{}',
	env                 jsonb NOT NULL DEFAULT '{}',
	template            text,
	release             text NOT NULL,
	vcpus               integer NOT NULL,
	memory_mib          integer NOT NULL,
	disk_mib            integer NOT NULL,
	ttl_s               bigint,
	on_expiry           text NOT NULL DEFAULT 'end',
	ends_at             timestamptz,
	desired             text NOT NULL CHECK (desired IN
		('running', 'paused', 'suspended', 'deleted')),
	observed            text NOT NULL CHECK (observed IN
		('pending', 'starting', 'running', 'paused', 'suspended',
		 'ended', 'failed', 'lost')),
	-- kind of the operation that runs now
	activity            text,
	generation          bigint NOT NULL DEFAULT 1,
	observed_generation bigint NOT NULL DEFAULT 0,
	node                text,
	fence               bigint NOT NULL DEFAULT 1,
	isolation_demand    text,
	isolation_level     text,
	isolation_engine    text,
	isolation_reason    text,
	last_op_seq         bigint NOT NULL DEFAULT 0,
	end_reason          text,
	end_detail          text,
	end_at              timestamptz,
	last_usage          jsonb,
	created_by          text NOT NULL,
	created_at          timestamptz NOT NULL DEFAULT now(),
	started_at          timestamptz,
	updated_at          timestamptz NOT NULL DEFAULT now()
);
-- A name is taken only while its sandbox lives.
CREATE UNIQUE INDEX sandboxes_name ON caisson.sandboxes (project, name)
	WHERE name IS NOT NULL AND observed NOT IN ('ended', 'failed', 'lost');
CREATE INDEX ON caisson.sandboxes (project, seq);
CREATE INDEX sandboxes_alive ON caisson.sandboxes (project)
	WHERE observed NOT IN ('ended', 'failed', 'lost');
CREATE INDEX ON caisson.sandboxes (project, name, seq);
CREATE INDEX ON caisson.sandboxes (node)
	WHERE observed NOT IN ('ended', 'failed', 'lost');
CREATE INDEX ON caisson.sandboxes (ends_at)
	WHERE ends_at IS NOT NULL AND desired <> 'deleted'
	AND observed NOT IN ('ended', 'failed', 'lost');
CREATE INDEX ON caisson.sandboxes (end_at) WHERE end_at IS NOT NULL;

CREATE TABLE caisson.operations (
	id            text PRIMARY KEY, -- op_ + 20
	seq           bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
	tenant        text NOT NULL,
	project       text NOT NULL,
	kind          text NOT NULL
		CHECK (kind IN ('create', 'end', 'template_build')),
	-- an intent is superseded by a newer one, an action never is
	intent        boolean NOT NULL,
	state         text NOT NULL CHECK (state IN
		('pending', 'running', 'succeeded', 'failed', 'cancelled')),
	sandbox       text REFERENCES caisson.sandboxes ON DELETE CASCADE,
	sandbox_seq   bigint,
	generation    bigint,
	template      text,
	node          text,
	reason        text, -- end: becomes the sandbox's end_reason
	request       jsonb,
	progress      jsonb,
	error         jsonb,
	timings       jsonb,
	superseded_by text,
	created_by    text NOT NULL,
	trace         text,
	-- who works on it: an API process, or the controller that took it over
	owner         text,
	lease_until   timestamptz NOT NULL,
	attempts      integer NOT NULL DEFAULT 0,
	deadline      timestamptz NOT NULL,
	created_at    timestamptz NOT NULL DEFAULT now(),
	started_at    timestamptz,
	finished_at   timestamptz,
	UNIQUE (sandbox, sandbox_seq)
);
CREATE INDEX ON caisson.operations (project, seq);
CREATE INDEX ON caisson.operations (lease_until)
	WHERE state IN ('pending', 'running');
CREATE INDEX ON caisson.operations (finished_at)
	WHERE finished_at IS NOT NULL;

-- Refused requests leave no row: only what was accepted is replayed.
CREATE TABLE caisson.idempotency_keys (
	project    text NOT NULL REFERENCES caisson.projects,
	method     text NOT NULL,
	route      text NOT NULL, -- path template
	key        text NOT NULL,
	tenant     text NOT NULL,
	body_hmac  bytea NOT NULL,
	-- the answer is built anew from these:
	operation  text,
	object     text, -- id of what was made
	-- or was kept: NULL status while the first request still runs, which
	-- after lease_until is taken for dead
	status     integer,
	location   text,
	etag       text,
	answer     text,
	lease_until timestamptz,
	created_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (project, method, route, key)
);
CREATE INDEX ON caisson.idempotency_keys (created_at);

-- What a project may have at the same time; without a row, or where NULL: no
-- limit. Held FOR UPDATE while something is added.
CREATE TABLE caisson.quotas (
	project    text PRIMARY KEY REFERENCES caisson.projects,
	tenant     text NOT NULL,
	sandboxes  bigint CHECK (sandboxes >= 0),
	vcpus      bigint CHECK (vcpus >= 0),
	memory_mib bigint CHECK (memory_mib >= 0),
	disk_mib   bigint CHECK (disk_mib >= 0),
	generation bigint NOT NULL DEFAULT 1,
	updated_at timestamptz NOT NULL DEFAULT now()
);

-- Row security. The API role sees the tenant that its function was called
-- for and nothing else, also when a query forgets to say so.
ALTER TABLE caisson.tenants ENABLE ROW LEVEL SECURITY;
ALTER TABLE caisson.projects ENABLE ROW LEVEL SECURITY;
ALTER TABLE caisson.api_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE caisson.templates ENABLE ROW LEVEL SECURITY;
ALTER TABLE caisson.template_releases ENABLE ROW LEVEL SECURITY;
ALTER TABLE caisson.tags ENABLE ROW LEVEL SECURITY;
ALTER TABLE caisson.sandboxes ENABLE ROW LEVEL SECURITY;
ALTER TABLE caisson.operations ENABLE ROW LEVEL SECURITY;
ALTER TABLE caisson.idempotency_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE caisson.quotas ENABLE ROW LEVEL SECURITY;

CREATE POLICY api ON caisson.tenants TO caisson_api
	USING (id = current_setting('caisson.tenant', true));
CREATE POLICY api ON caisson.projects TO caisson_api
	USING (tenant = current_setting('caisson.tenant', true));
CREATE POLICY api ON caisson.api_keys TO caisson_api
	USING (tenant = current_setting('caisson.tenant', true));
CREATE POLICY api ON caisson.templates TO caisson_api
	USING (public OR tenant = current_setting('caisson.tenant', true))
	WITH CHECK (tenant = current_setting('caisson.tenant', true));
CREATE POLICY api ON caisson.template_releases TO caisson_api
	USING (public OR tenant = current_setting('caisson.tenant', true))
	WITH CHECK (tenant = current_setting('caisson.tenant', true));
CREATE POLICY api ON caisson.tags TO caisson_api
	USING (public OR tenant = current_setting('caisson.tenant', true))
	WITH CHECK (tenant = current_setting('caisson.tenant', true));
CREATE POLICY api ON caisson.sandboxes TO caisson_api
	USING (tenant = current_setting('caisson.tenant', true));
CREATE POLICY api ON caisson.operations TO caisson_api
	USING (tenant = current_setting('caisson.tenant', true));
CREATE POLICY api ON caisson.idempotency_keys TO caisson_api
	USING (tenant = current_setting('caisson.tenant', true));
CREATE POLICY api ON caisson.quotas TO caisson_api
	USING (tenant = current_setting('caisson.tenant', true));

-- The controller serves no client and works for all tenants.
CREATE POLICY controller ON caisson.tenants TO caisson_controller USING (true);
CREATE POLICY controller ON caisson.projects TO caisson_controller USING (true);
CREATE POLICY controller ON caisson.templates
	TO caisson_controller USING (true);
CREATE POLICY controller ON caisson.template_releases
	TO caisson_controller USING (true);
CREATE POLICY controller ON caisson.tags TO caisson_controller USING (true);
CREATE POLICY controller ON caisson.sandboxes
	TO caisson_controller USING (true);
CREATE POLICY controller ON caisson.operations
	TO caisson_controller USING (true);
CREATE POLICY controller ON caisson.idempotency_keys
	TO caisson_controller USING (true);

GRANT SELECT ON caisson.tenants, caisson.projects, caisson.nodes
	TO caisson_api, caisson_controller;
GRANT SELECT (one, epoch, created_at) ON caisson.cluster TO caisson_controller;
GRANT SELECT ON caisson.cluster TO caisson_api;
GRANT SELECT ON caisson.schema_migrations TO caisson_api, caisson_controller;
GRANT SELECT, INSERT, UPDATE ON caisson.api_keys TO caisson_api;
GRANT SELECT, INSERT, UPDATE ON caisson.templates, caisson.template_releases,
	caisson.tags, caisson.sandboxes, caisson.operations,
	caisson.idempotency_keys TO caisson_api, caisson_controller;
GRANT DELETE ON caisson.templates, caisson.tags, caisson.idempotency_keys
	TO caisson_api;
GRANT SELECT, INSERT, UPDATE ON caisson.quotas TO caisson_api;
GRANT INSERT ON caisson.projects TO caisson_api;
GRANT DELETE ON caisson.sandboxes, caisson.operations,
	caisson.idempotency_keys TO caisson_controller;
GRANT INSERT, UPDATE, DELETE ON caisson.nodes TO caisson_controller;

RESET ROLE;
