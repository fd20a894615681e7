-- SPDX-License-Identifier: Apache-2.0
--
-- Who may do what: tenants, projects, quotas, cordons, and ports of sandboxes
-- that are reachable from outside. What only an operator may call runs as owner
-- and says so; the API checks the role first.

SET LOCAL ROLE caisson_owner;

-- ---- quotas ----

-- Limits and what is used of them. Row security of the caller applies.
CREATE FUNCTION caisson.quota_json(p_project text) RETURNS json
LANGUAGE sql STABLE AS $$
	SELECT json_build_object('project', p_project,
		'generation', coalesce(q.generation, 0),
		'limits', json_build_object('sandboxes', q.sandboxes,
			'vcpus', q.vcpus, 'memory_mib', q.memory_mib,
			'disk_mib', q.disk_mib),
		'used', json_build_object('sandboxes', u.n, 'vcpus', u.vcpus,
			'memory_mib', u.memory_mib, 'disk_mib', u.disk_mib))
	FROM (SELECT count(*) AS n, coalesce(sum(s.vcpus), 0) AS vcpus,
			coalesce(sum(s.memory_mib), 0) AS memory_mib,
			coalesce(sum(s.disk_mib), 0) AS disk_mib
		FROM caisson.sandboxes s WHERE s.project = p_project
		  AND s.observed NOT IN ('ended', 'failed', 'lost')) u
	LEFT JOIN caisson.quotas q ON q.project = p_project
$$;

-- Raises CA404.
CREATE FUNCTION caisson.quota_get(p_tenant text, p_project text,
	p_wanted text, p_operator boolean)
RETURNS TABLE (generation bigint, quota json)
LANGUAGE plpgsql AS $$
DECLARE
	p caisson.projects;
BEGIN
	p := caisson.project_find(p_tenant, p_project, p_wanted, p_operator);
	PERFORM caisson.scope(p.tenant);
	RETURN QUERY SELECT coalesce((SELECT q.generation
			FROM caisson.quotas q WHERE q.project = p.id), 0),
		caisson.quota_json(p.id);
END $$;

-- All four at once; NULL = no limit. What is above a new limit goes on; nothing
-- is added until it is below. Operators only. Raises CA404, CA412.
CREATE FUNCTION caisson.quota_put(p_tenant text, p_project text,
	p_wanted text, p_if_match bigint, p_sandboxes bigint, p_vcpus bigint,
	p_memory_mib bigint, p_disk_mib bigint)
RETURNS TABLE (generation bigint, quota json)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	p caisson.projects;
	q caisson.quotas;
BEGIN
	p := caisson.project_find(p_tenant, p_project, p_wanted, true);
	PERFORM caisson.scope(p.tenant);
	INSERT INTO caisson.quotas (project, tenant, generation)
		VALUES (p.id, p.tenant, 0) ON CONFLICT DO NOTHING;
	SELECT * INTO q FROM caisson.quotas x
		WHERE x.project = p.id FOR UPDATE;
	PERFORM caisson.if_match(q.generation, p_if_match);
	UPDATE caisson.quotas x
		SET sandboxes = p_sandboxes, vcpus = p_vcpus,
		    memory_mib = p_memory_mib, disk_mib = p_disk_mib,
		    generation = x.generation + 1, updated_at = now()
		WHERE x.project = p.id RETURNING * INTO q;
	RETURN QUERY SELECT q.generation, caisson.quota_json(p.id);
END $$;

-- ---- projects ----

CREATE FUNCTION caisson.project_json(p caisson.projects) RETURNS json
LANGUAGE sql STABLE AS $$
	SELECT json_build_object('id', p.id, 'name', p.name,
		'tenant', p.tenant, 'created_at', caisson.ts(p.created_at))
$$;

-- p_wanted: the tenant, NULL = the caller's; another only for an operator.
-- Raises CA404. Runs as owner.
CREATE FUNCTION caisson.tenant_find(p_tenant text, p_wanted text,
	p_operator boolean)
RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = caisson, pg_temp AS $$
DECLARE
	v_id text;
BEGIN
	SELECT t.id INTO v_id FROM caisson.tenants t
		WHERE t.id = coalesce(p_wanted, p_tenant)
		  AND t.deleted_at IS NULL
		  AND (p_operator OR t.id = p_tenant);
	IF NOT FOUND THEN
		RAISE EXCEPTION 'no such tenant' USING ERRCODE = 'CA404';
	END IF;
	RETURN v_id;
END $$;

CREATE FUNCTION caisson.project_list(p_tenant text, p_after bigint,
	p_limit integer, p_wanted text, p_operator boolean)
RETURNS TABLE (seq bigint, item json)
LANGUAGE plpgsql AS $$
DECLARE
	v_tenant text;
BEGIN
	v_tenant := caisson.tenant_find(p_tenant, p_wanted, p_operator);
	PERFORM caisson.scope(v_tenant);
	RETURN QUERY SELECT p.seq, caisson.project_json(p)
		FROM caisson.projects p
		WHERE p.tenant = v_tenant
		  AND (p_after IS NULL OR p.seq < p_after)
		ORDER BY p.seq DESC LIMIT p_limit;
END $$;

-- Raises CA404, CA001.
CREATE FUNCTION caisson.project_create(p_tenant text, p_name text,
	p_wanted text, p_operator boolean)
RETURNS json
LANGUAGE plpgsql AS $$
DECLARE
	v_tenant text;
	p caisson.projects;
BEGIN
	v_tenant := caisson.tenant_find(p_tenant, p_wanted, p_operator);
	PERFORM caisson.scope(v_tenant);
	INSERT INTO caisson.projects (id, tenant, name)
		VALUES (caisson.new_id('prj_'), v_tenant, p_name)
		ON CONFLICT (tenant, name) DO NOTHING RETURNING * INTO p;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'name taken' USING ERRCODE = 'CA001';
	END IF;
	RETURN caisson.project_json(p);
END $$;

-- ---- tenants: operators only, all of them run as owner ----

CREATE FUNCTION caisson.tenant_json(t caisson.tenants) RETURNS json
LANGUAGE sql STABLE AS $$
	SELECT json_build_object('id', t.id, 'name', t.name,
		'created_at', caisson.ts(t.created_at),
		'deleted_at', caisson.ts(t.deleted_at))
$$;

CREATE FUNCTION caisson.tenant_list(p_after bigint, p_limit integer)
RETURNS TABLE (seq bigint, item json)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
	SELECT t.seq, caisson.tenant_json(t) FROM caisson.tenants t
		WHERE p_after IS NULL OR t.seq < p_after
		ORDER BY t.seq DESC LIMIT p_limit
$$;

-- With its first project, `default`. Raises CA001.
CREATE FUNCTION caisson.tenant_create(p_name text)
RETURNS TABLE (tenant json, project json)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	t caisson.tenants;
	p caisson.projects;
BEGIN
	INSERT INTO caisson.tenants (id, name)
		VALUES (caisson.new_id('ten_'), p_name)
		ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING
		RETURNING * INTO t;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'name taken' USING ERRCODE = 'CA001';
	END IF;
	INSERT INTO caisson.projects (id, tenant, name)
		VALUES (caisson.new_id('prj_'), t.id, 'default')
		RETURNING * INTO p;
	RETURN QUERY SELECT caisson.tenant_json(t), caisson.project_json(p);
END $$;

-- From this commit on its keys are dead, its ports closed, and every sandbox of
-- it is wished to end (reason admin); the controller sees to that. Again is the
-- same. The records stay as long as those of ended sandboxes. Raises CA404,
-- CA007 (the caller's own).
CREATE FUNCTION caisson.tenant_delete(p_own text, p_id text, p_by text,
	p_trace text)
RETURNS TABLE (tenant json, ending integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	t caisson.tenants;
	s caisson.sandboxes;
	n integer := 0;
BEGIN
	UPDATE caisson.tenants x
		SET deleted_at = coalesce(x.deleted_at, now())
		WHERE x.id = p_id RETURNING * INTO t;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'no such tenant' USING ERRCODE = 'CA404';
	ELSIF t.id = p_own THEN
		RAISE EXCEPTION 'own' USING ERRCODE = 'CA007';
	END IF;
	UPDATE caisson.api_keys k SET revoked_at = coalesce(k.revoked_at, now())
		WHERE k.tenant = p_id;
	UPDATE caisson.templates x SET public = false
		WHERE x.tenant = p_id AND x.public;
	UPDATE caisson.template_releases x SET public = false
		WHERE x.tenant = p_id AND x.public;
	UPDATE caisson.tags x SET public = false
		WHERE x.tenant = p_id AND x.public;
	FOR s IN SELECT * FROM caisson.sandboxes x
		WHERE x.tenant = p_id AND x.desired <> 'deleted'
		  AND x.observed NOT IN ('ended', 'failed', 'lost')
		ORDER BY x.id FOR UPDATE
	LOOP
		PERFORM caisson.end_locked(s, caisson.new_id('op_'), 'admin',
			p_by, p_trace, NULL, 0, 60);
		n := n + 1;
	END LOOP;
	RETURN QUERY SELECT caisson.tenant_json(t), n;
END $$;

-- ---- nodes: operators only, runs as owner ----

-- A cordoned node takes no new sandboxes; what is there stays. NULL: no such
-- node.
CREATE FUNCTION caisson.node_cordon(p_name text, p_cordon boolean)
RETURNS json
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	n caisson.nodes;
BEGIN
	UPDATE caisson.nodes x SET state = CASE
			WHEN p_cordon THEN 'cordoned'
			WHEN x.state = 'cordoned' THEN 'up'
			ELSE x.state END
		WHERE x.name = p_name RETURNING * INTO n;
	RETURN CASE WHEN FOUND THEN caisson.node_json(n) END;
END $$;

-- ---- ports ----

-- Ports of sandboxes that are reachable from outside, and who may use them.
--
-- Without a row a port is private: it needs a key of the project. `token` lets
-- in whoever has the port's token (kept as SHA-256 only), `public` everybody.
-- A row lives as long as its sandbox's record; what a row grants ends with the
-- sandbox itself, which the caller sees in port_lookup().observed.
--
-- Raised: CA404 no such sandbox, CA003 the sandbox is final, CA010 too many
-- ports.

CREATE TABLE caisson.ports (
	sandbox      text NOT NULL
		REFERENCES caisson.sandboxes ON DELETE CASCADE,
	port         integer NOT NULL CHECK (port BETWEEN 1 AND 65535),
	tenant       text NOT NULL,
	project      text NOT NULL,
	access       text NOT NULL
		CHECK (access IN ('private', 'token', 'public')),
	token_sha256 bytea CHECK (length(token_sha256) = 32),
	generation   bigint NOT NULL DEFAULT 1,
	created_by   text NOT NULL,
	created_at   timestamptz NOT NULL DEFAULT now(),
	updated_at   timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (sandbox, port),
	CHECK ((access = 'token') = (token_sha256 IS NOT NULL))
);
ALTER TABLE caisson.ports ENABLE ROW LEVEL SECURITY;
CREATE POLICY api ON caisson.ports TO caisson_api
	USING (tenant = current_setting('caisson.tenant', true));
CREATE POLICY controller ON caisson.ports TO caisson_controller USING (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON caisson.ports TO caisson_api;
GRANT SELECT, DELETE ON caisson.ports TO caisson_controller;

-- The token is not in it: only its hash is known.
CREATE FUNCTION caisson.port_json(p caisson.ports) RETURNS json
LANGUAGE sql STABLE AS $$
	SELECT json_build_object('sandbox', p.sandbox, 'port', p.port,
		'access', p.access, 'generation', p.generation,
		'created_by', p.created_by,
		'created_at', caisson.ts(p.created_at),
		'updated_at', caisson.ts(p.updated_at))
$$;

-- Open a port or change how it is open; p_token_sha256_hex only with access
-- token: a new token takes the place of the old one at once. Another access
-- forgets the token. created: there was no row before. At most 64 a sandbox.
CREATE FUNCTION caisson.port_set(p_tenant text, p_project text, p_ref text,
	p_port integer, p_access text, p_token_sha256_hex text, p_by text)
RETURNS TABLE (created boolean, sandbox text, port json)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	s caisson.sandboxes;
	p caisson.ports;
BEGIN
	PERFORM caisson.scope(p_tenant);
	s := caisson.sandbox_find(p_project, p_ref);
	-- one at a time, so that the count below is exact
	SELECT * INTO s FROM caisson.sandboxes x WHERE x.id = s.id FOR UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'no sandbox %', p_ref USING ERRCODE = 'CA404';
	END IF;
	IF caisson.is_final(s.observed) OR s.desired = 'deleted' THEN
		RAISE EXCEPTION 'sandbox % is %', s.id,
			caisson.sandbox_state(s) USING ERRCODE = 'CA003';
	END IF;
	INSERT INTO caisson.ports AS t (sandbox, port, tenant, project, access,
		token_sha256, created_by)
	VALUES (s.id, p_port, p_tenant, p_project, p_access,
		decode(p_token_sha256_hex, 'hex'), p_by)
	ON CONFLICT (sandbox, port) DO UPDATE
		SET access = excluded.access,
		    token_sha256 = excluded.token_sha256,
		    generation = t.generation + 1, updated_at = now()
	RETURNING * INTO p;
	IF (SELECT count(*) > 64 FROM caisson.ports t
		WHERE t.sandbox = s.id) THEN
		RAISE EXCEPTION '64 ports are open'
			USING ERRCODE = 'CA010';
	END IF;
	RETURN QUERY SELECT p.generation = 1, s.id, caisson.port_json(p);
END $$;

-- By number. No row at all: no such sandbox; port NULL: none is open.
CREATE FUNCTION caisson.port_list(p_tenant text, p_project text, p_ref text)
RETURNS TABLE (sandbox text, port json)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	s caisson.sandboxes;
BEGIN
	PERFORM caisson.scope(p_tenant);
	s := caisson.sandbox_find(p_project, p_ref);
	IF s.id IS NULL THEN
		RETURN;
	END IF;
	RETURN QUERY SELECT s.id,
		CASE WHEN p.sandbox IS NOT NULL THEN caisson.port_json(p) END
		FROM (SELECT 1) one
		LEFT JOIN caisson.ports p ON p.sandbox = s.id
		ORDER BY p.port;
END $$;

-- Close: back to private, without a row. removed is false if there was none.
-- port: the row as it was. Raises CA404.
CREATE FUNCTION caisson.port_delete(p_tenant text, p_project text, p_ref text,
	p_port integer)
RETURNS TABLE (removed boolean, sandbox text, port json)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	s caisson.sandboxes;
	p caisson.ports;
	v_found boolean;
BEGIN
	PERFORM caisson.scope(p_tenant);
	s := caisson.sandbox_find(p_project, p_ref);
	IF s.id IS NULL THEN
		RAISE EXCEPTION 'no sandbox %', p_ref USING ERRCODE = 'CA404';
	END IF;
	DELETE FROM caisson.ports t
		WHERE t.sandbox = s.id AND t.port = p_port RETURNING * INTO p;
	v_found := FOUND;
	RETURN QUERY SELECT v_found, s.id,
		CASE WHEN v_found THEN caisson.port_json(p) END;
END $$;

-- For the data listener, which is asked by PORT-ID. or by a header and does not
-- know the tenant yet: whose sandbox it is, who may use this port, and where
-- the sandbox lives. access is `private` without a row. The caller must check
-- access before it says anything about the sandbox. No row: no such sandbox.
CREATE FUNCTION caisson.port_lookup(p_sandbox text, p_port integer)
RETURNS TABLE (tenant text, project text, access text, token_sha256 text,
	observed text, desired text, node text, end_reason text,
	end_detail text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
	SELECT s.tenant, s.project, coalesce(p.access, 'private'),
		encode(p.token_sha256, 'hex'), s.observed, s.desired, s.node,
		s.end_reason, s.end_detail
	FROM caisson.sandboxes s
	JOIN caisson.tenants t ON t.id = s.tenant AND t.deleted_at IS NULL
	LEFT JOIN caisson.ports p ON p.sandbox = s.id AND p.port = p_port
	WHERE s.id = p_sandbox
$$;

RESET ROLE;
