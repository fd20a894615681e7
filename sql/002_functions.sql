-- SPDX-License-Identifier: Apache-2.0
--
-- What caisson-api calls. One call is one transaction. Each function takes the
-- tenant first and puts row security into its scope; the project is checked
-- in every query. Objects come back as JSON in the public API's shape, so that
-- the API passes the text on.
--
-- Refusals a client can cause are raised with these SQLSTATEs (the message is
-- for the log; words for the client are the API's):
--   CA404 no such thing      CA001 name taken        CA002 idempotency mismatch
--   CA003 wrong state        CA004 template unknown  CA005 no node was given
--   CA006 release unknown    CA007 in use            CA010 too many of them
--   CA412 generation changed CA429 quota reached

SET LOCAL ROLE caisson_owner;

CREATE FUNCTION caisson.scope(p_tenant text) RETURNS void
LANGUAGE sql AS $$
	SELECT set_config('caisson.tenant', p_tenant, true)
$$;

-- RFC 3339, UTC, milliseconds.
CREATE FUNCTION caisson.ts(t timestamptz) RETURNS text
LANGUAGE sql STABLE AS $$
	SELECT to_char(t AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- prefix + 20 of [a-z0-9] with at least 100 bits of min-entropy. The fixed
-- bits of a version 4 UUID lie in bytes 6 and 8, which are left out.
CREATE FUNCTION caisson.new_id(p_prefix text) RETURNS text
LANGUAGE sql VOLATILE AS $$
	SELECT p_prefix || string_agg(
		substr('abcdefghijklmnopqrstuvwxyz0123456789',
		       1 + get_byte(u.b, i) % 36, 1), '' ORDER BY i)
	FROM (SELECT decode(replace(gen_random_uuid()::text
		|| gen_random_uuid()::text, '-', ''), 'hex') AS b
		OFFSET 0) u,
	     unnest(ARRAY[0, 1, 2, 3, 4, 5, 7, 9, 10, 11, 12, 13, 14, 15, 16,
		17, 18, 19, 20, 21]) AS i
$$;

CREATE FUNCTION caisson.is_final(p_observed text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
	SELECT p_observed IN ('ended', 'failed', 'lost')
$$;

-- The public, transitional name: derived from observed and desired.
CREATE FUNCTION caisson.sandbox_state(s caisson.sandboxes) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE
		WHEN s.observed IN ('ended', 'failed', 'lost') THEN s.observed
		WHEN s.desired = 'deleted' THEN 'ending'
		WHEN s.observed = 'pending' AND s.activity = 'create'
			THEN 'starting'
		ELSE s.observed
	END
$$;

-- Environment values are not shown: people put secrets there.
CREATE FUNCTION caisson.sandbox_json(s caisson.sandboxes) RETURNS json
LANGUAGE sql STABLE AS $$
	SELECT json_build_object(
		'id', s.id, 'name', s.name, 'project', s.project,
		'state', caisson.sandbox_state(s),
		'desired', s.desired, 'observed', s.observed,
		'activity', s.activity, 'generation', s.generation,
		'observed_generation', s.observed_generation,
		'template', s.template, 'release', s.release,
		'labels', s.labels,
		'resources', json_build_object('vcpus', s.vcpus,
			'memory_mib', s.memory_mib, 'disk_mib', s.disk_mib),
		'lifetime', json_build_object('ttl_s', s.ttl_s,
			'on_expiry', s.on_expiry),
		'ends_at', caisson.ts(s.ends_at),
		'isolation', CASE WHEN s.isolation_level IS NOT NULL THEN
			json_build_object('level', s.isolation_level,
				'engine', s.isolation_engine,
				'reason', s.isolation_reason) END,
		'node', s.node,
		'durability', 'none', 'last_snapshot', NULL,
		'at_risk_s', CASE WHEN s.observed = 'running' THEN
			floor(extract(epoch FROM now() - s.started_at)) END,
		'end', CASE WHEN s.end_at IS NOT NULL THEN
			json_build_object('reason', s.end_reason,
				'detail', s.end_detail,
				'at', caisson.ts(s.end_at),
				'last_usage', s.last_usage) END,
		'created_by', s.created_by,
		'created_at', caisson.ts(s.created_at),
		'started_at', caisson.ts(s.started_at),
		'updated_at', caisson.ts(s.updated_at))
$$;

CREATE FUNCTION caisson.operation_json(o caisson.operations) RETURNS json
LANGUAGE sql STABLE AS $$
	SELECT json_build_object(
		'id', o.id, 'kind', o.kind, 'state', o.state,
		'sandbox', o.sandbox, 'template', o.template,
		'generation', o.generation, 'progress', o.progress,
		'error', o.error, 'timings_ms', o.timings,
		'superseded_by', o.superseded_by,
		'created_by', o.created_by,
		'created_at', caisson.ts(o.created_at),
		'started_at', caisson.ts(o.started_at),
		'finished_at', caisson.ts(o.finished_at),
		'deadline', caisson.ts(o.deadline))
$$;

-- ---- authentication ----

-- The key with this public prefix, revoked or not; the caller compares sha256
-- in constant time. Runs as owner: the tenant is not known yet.
CREATE FUNCTION caisson.key_lookup(p_prefix text)
RETURNS TABLE (id text, tenant text, project text, role text, name text,
	sha256 text, revoked boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
	SELECT k.id, k.tenant, k.project, k.role, k.name,
		encode(k.sha256, 'hex'),
		k.revoked_at IS NOT NULL OR t.deleted_at IS NOT NULL
	FROM caisson.api_keys k JOIN caisson.tenants t ON t.id = k.tenant
	WHERE k.prefix = p_prefix
$$;

-- Of these (a text array literal), those that are dead or unknown: for streams
-- that stay open. Runs as owner and tells nothing but that.
CREATE FUNCTION caisson.keys_dead(p_ids text[])
RETURNS TABLE (id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
	SELECT i FROM unnest(p_ids) AS i
	LEFT JOIN caisson.api_keys k ON k.id = i
	LEFT JOIN caisson.tenants t ON t.id = k.tenant
	WHERE k.id IS NULL OR k.revoked_at IS NOT NULL
	   OR t.deleted_at IS NOT NULL
$$;

CREATE FUNCTION caisson.key_json(k caisson.api_keys) RETURNS json
LANGUAGE sql STABLE AS $$
	SELECT json_build_object('id', k.id, 'name', k.name, 'role', k.role,
		'prefix', k.prefix, 'project', k.project,
		'created_at', caisson.ts(k.created_at),
		'revoked_at', caisson.ts(k.revoked_at))
$$;

-- Where a key or a quota belongs: the caller's own project, or p_wanted if it
-- is given, which only an operator may choose freely. Raises CA404. Runs as
-- owner: the project may be another tenant's.
CREATE FUNCTION caisson.project_find(p_tenant text, p_project text,
	p_wanted text, p_operator boolean)
RETURNS caisson.projects
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = caisson, pg_temp AS $$
DECLARE
	p caisson.projects;
BEGIN
	SELECT x.* INTO p FROM caisson.projects x
		JOIN caisson.tenants t ON t.id = x.tenant
		WHERE x.id = coalesce(p_wanted, p_project)
		  AND t.deleted_at IS NULL
		  AND (p_operator OR x.id = p_project)
		  AND (p_operator OR x.tenant = p_tenant);
	IF NOT FOUND THEN
		RAISE EXCEPTION 'no such project' USING ERRCODE = 'CA404';
	END IF;
	RETURN p;
END $$;

-- outcome: created | replay. A replay shows the record; the secret was shown
-- once and is not kept. p_wanted: project of the key, NULL = the caller's.
CREATE FUNCTION caisson.key_create(p_tenant text, p_project text, p_id text,
	p_name text, p_role text, p_prefix text, p_sha256_hex text,
	p_route text, p_idem text, p_body_hmac_hex text, p_wanted text,
	p_operator boolean)
RETURNS TABLE (outcome text, key json)
LANGUAGE plpgsql AS $$
DECLARE
	k caisson.api_keys;
	p caisson.projects;
	known caisson.idempotency_keys;
BEGIN
	PERFORM caisson.scope(p_tenant);
	known := caisson.idem_begin(p_tenant, p_project, 'POST', p_route,
		p_idem, p_body_hmac_hex, NULL, p_id);
	p := caisson.project_find(p_tenant, p_project, p_wanted, p_operator);
	PERFORM caisson.scope(p.tenant);
	IF known.object IS NOT NULL THEN
		SELECT * INTO k FROM caisson.api_keys a
			WHERE a.id = known.object AND a.project = p.id;
		RETURN QUERY SELECT 'replay', caisson.key_json(k);
		RETURN;
	END IF;
	INSERT INTO caisson.api_keys (id, tenant, project, name, role, prefix,
		sha256)
	VALUES (p_id, p.tenant, p.id, p_name, p_role, p_prefix,
		decode(p_sha256_hex, 'hex')) RETURNING * INTO k;
	RETURN QUERY SELECT 'created', caisson.key_json(k);
END $$;

-- Revoke; NULL if there is no such key (here, or anywhere for an operator).
-- Twice is the same as once. An admin cannot revoke an operator's key.
CREATE FUNCTION caisson.key_revoke(p_tenant text, p_project text, p_id text,
	p_operator boolean)
RETURNS json
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	k caisson.api_keys;
BEGIN
	UPDATE caisson.api_keys a
		SET revoked_at = coalesce(a.revoked_at, now())
		WHERE a.id = p_id AND (p_operator
			OR (a.project = p_project AND a.tenant = p_tenant
				AND a.role <> 'operator'))
		RETURNING * INTO k;
	RETURN CASE WHEN FOUND THEN caisson.key_json(k) END;
END $$;

-- Lists: newest first, rows with seq < p_after (NULL: from the newest). The
-- caller asks for one more than it shows, to know whether there is a next
-- page. Each row: its seq for the cursor, and the object.
CREATE FUNCTION caisson.key_list(p_tenant text, p_project text,
	p_after bigint, p_limit integer, p_wanted text, p_operator boolean)
RETURNS TABLE (seq bigint, item json)
LANGUAGE plpgsql AS $$
DECLARE
	p caisson.projects;
BEGIN
	p := caisson.project_find(p_tenant, p_project, p_wanted, p_operator);
	PERFORM caisson.scope(p.tenant);
	RETURN QUERY SELECT k.seq, caisson.key_json(k)
		FROM caisson.api_keys k
		WHERE k.project = p.id
		  AND (p_after IS NULL OR k.seq < p_after)
		ORDER BY k.seq DESC LIMIT p_limit;
END $$;

-- ---- idempotency ----

-- Take the key, or find what it stands for. An all-NULL result means: go on,
-- the key (if any) is ours and commits with the rest of this transaction; a
-- concurrent holder was waited for. Raises CA002 if the body differs.
CREATE FUNCTION caisson.idem_begin(p_tenant text, p_project text,
	p_method text, p_route text, p_key text, p_body_hmac_hex text,
	p_operation text, p_object text)
RETURNS caisson.idempotency_keys
LANGUAGE plpgsql AS $$
DECLARE
	known caisson.idempotency_keys;
	nothing caisson.idempotency_keys;
BEGIN
	IF p_key IS NULL THEN
		RETURN nothing;
	END IF;
	INSERT INTO caisson.idempotency_keys (project, method, route, key,
		tenant, body_hmac, operation, object)
	VALUES (p_project, p_method, p_route, p_key, p_tenant,
		decode(p_body_hmac_hex, 'hex'), p_operation, p_object)
	ON CONFLICT DO NOTHING;
	IF FOUND THEN
		RETURN nothing;
	END IF;
	SELECT * INTO known FROM caisson.idempotency_keys i
		WHERE i.project = p_project AND i.method = p_method
		  AND i.route = p_route AND i.key = p_key;
	IF known.created_at < now() - interval '24 hours' THEN
		UPDATE caisson.idempotency_keys i
			SET body_hmac = decode(p_body_hmac_hex, 'hex'),
			    operation = p_operation, object = p_object,
			    created_at = now()
			WHERE i.project = p_project AND i.method = p_method
			  AND i.route = p_route AND i.key = p_key;
		RETURN nothing;
	END IF;
	IF known.body_hmac <> decode(p_body_hmac_hex, 'hex') THEN
		RAISE EXCEPTION 'idempotency key was used with another body'
			USING ERRCODE = 'CA002';
	END IF;
	RETURN known;
END $$;

-- The same for calls whose answer is kept as it was. outcome: go (the key is
-- ours until idem_keep() or idem_drop(), at the latest for p_lease_s) |
-- running (another request has it) | replay (with the answer). Raises CA002.
CREATE FUNCTION caisson.idem_take(p_tenant text, p_project text,
	p_method text, p_route text, p_key text, p_body_hmac_hex text,
	p_lease_s integer)
RETURNS TABLE (outcome text, status integer, location text, etag text,
	answer text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	k caisson.idempotency_keys;
BEGIN
	PERFORM caisson.scope(p_tenant);
	INSERT INTO caisson.idempotency_keys (project, method, route, key,
		tenant, body_hmac, lease_until)
	VALUES (p_project, p_method, p_route, p_key, p_tenant,
		decode(p_body_hmac_hex, 'hex'),
		now() + p_lease_s * interval '1 second')
	ON CONFLICT DO NOTHING;
	IF FOUND THEN
		RETURN QUERY SELECT 'go', NULL::integer, NULL, NULL, NULL;
		RETURN;
	END IF;
	SELECT * INTO k FROM caisson.idempotency_keys i
		WHERE i.project = p_project AND i.method = p_method
		  AND i.route = p_route AND i.key = p_key FOR UPDATE;
	IF NOT FOUND THEN -- given back this moment
		RETURN QUERY SELECT 'running', NULL::integer, NULL, NULL, NULL;
		RETURN;
	END IF;
	IF k.created_at >= now() - interval '24 hours' THEN
		IF k.body_hmac <> decode(p_body_hmac_hex, 'hex') THEN
			RAISE EXCEPTION 'key was used with another body'
				USING ERRCODE = 'CA002';
		ELSIF k.status IS NOT NULL THEN
			RETURN QUERY SELECT 'replay', k.status, k.location,
				k.etag, k.answer;
			RETURN;
		ELSIF k.lease_until > now() THEN
			RETURN QUERY SELECT 'running', NULL::integer, NULL,
				NULL, NULL;
			RETURN;
		END IF;
	END IF;
	UPDATE caisson.idempotency_keys i
		SET body_hmac = decode(p_body_hmac_hex, 'hex'), status = NULL,
		    location = NULL, etag = NULL, answer = NULL,
		    operation = NULL, object = NULL, created_at = now(),
		    lease_until = now() + p_lease_s * interval '1 second'
		WHERE i.project = p_project AND i.method = p_method
		  AND i.route = p_route AND i.key = p_key;
	RETURN QUERY SELECT 'go', NULL::integer, NULL, NULL, NULL;
END $$;

CREATE FUNCTION caisson.idem_keep(p_tenant text, p_project text,
	p_method text, p_route text, p_key text, p_status integer,
	p_location text, p_etag text, p_answer text)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	UPDATE caisson.idempotency_keys i
		SET status = p_status, location = p_location, etag = p_etag,
		    answer = p_answer
		WHERE i.project = p_project AND i.method = p_method
		  AND i.route = p_route AND i.key = p_key;
END $$;

-- The request was refused: the key is free again.
CREATE FUNCTION caisson.idem_drop(p_tenant text, p_project text,
	p_method text, p_route text, p_key text)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	DELETE FROM caisson.idempotency_keys i
		WHERE i.project = p_project AND i.method = p_method
		  AND i.route = p_route AND i.key = p_key
		  AND i.status IS NULL;
END $$;

-- ---- sandboxes ----

-- p_if_match NULL: anything goes. Raises CA412.
CREATE FUNCTION caisson.if_match(p_generation bigint, p_if_match bigint)
RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF p_generation IS DISTINCT FROM
			coalesce(p_if_match, p_generation) THEN
		RAISE EXCEPTION 'generation is % now',
			coalesce(p_generation::text, 'none')
			USING ERRCODE = 'CA412';
	END IF;
END $$;

-- Room for one more? Raises CA429 with `NAME USED LIMIT`. The quota's row stays
-- locked, so that two creates cannot both take the last place.
CREATE FUNCTION caisson.quota_check(p_project text, p_vcpus bigint,
	p_memory_mib bigint, p_disk_mib bigint)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	q caisson.quotas;
	u record;
	what text;
BEGIN
	SELECT * INTO q FROM caisson.quotas x
		WHERE x.project = p_project FOR UPDATE;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	SELECT count(*) AS n, coalesce(sum(s.vcpus), 0) AS vcpus,
		coalesce(sum(s.memory_mib), 0) AS memory_mib,
		coalesce(sum(s.disk_mib), 0) AS disk_mib
		INTO u FROM caisson.sandboxes s
		WHERE s.project = p_project
		  AND s.observed NOT IN ('ended', 'failed', 'lost');
	what := CASE
		WHEN u.n + 1 > q.sandboxes
			THEN format('sandboxes %s %s', u.n, q.sandboxes)
		WHEN u.vcpus + p_vcpus > q.vcpus
			THEN format('vcpus %s %s', u.vcpus, q.vcpus)
		WHEN u.memory_mib + p_memory_mib > q.memory_mib
			THEN format('memory_mib %s %s', u.memory_mib,
				q.memory_mib)
		WHEN u.disk_mib + p_disk_mib > q.disk_mib
			THEN format('disk_mib %s %s', u.disk_mib, q.disk_mib)
		END;
	IF what IS NOT NULL THEN
		RAISE EXCEPTION '%', what USING ERRCODE = 'CA429';
	END IF;
END $$;

-- By id, or by @name: the living one, else the newest that had the name.
CREATE FUNCTION caisson.sandbox_find(p_project text, p_ref text)
RETURNS caisson.sandboxes
LANGUAGE sql STABLE AS $$
	(SELECT s FROM caisson.sandboxes s
		WHERE left(p_ref, 1) <> '@' AND s.id = p_ref
		  AND s.project = p_project)
	UNION ALL
	(SELECT s FROM caisson.sandboxes s
		WHERE left(p_ref, 1) = '@' AND s.name = substr(p_ref, 2)
		  AND s.project = p_project
		ORDER BY caisson.is_final(s.observed), s.seq DESC LIMIT 1)
	LIMIT 1
$$;

-- The release that a template reference means: `sha256:HEX`, `NAME` (tag
-- latest) or `NAME:TAG`; own project first, then public ones. NULL if none.
CREATE FUNCTION caisson.release_find(p_project text, p_ref text)
RETURNS caisson.template_releases
LANGUAGE sql STABLE AS $$
	SELECT r FROM caisson.template_releases r
	WHERE (r.project = p_project OR r.public) AND CASE
		WHEN p_ref LIKE 'sha256:%' THEN r.digest = p_ref
		ELSE (r.project, r.digest) IN (
			SELECT t.project, t.release FROM caisson.tags t
			WHERE (t.project = p_project OR t.public)
			  AND t.template = split_part(p_ref, ':', 1)
			  AND t.tag = coalesce(nullif(
				split_part(p_ref, ':', 2), ''), 'latest'))
	END
	ORDER BY r.project <> p_project LIMIT 1
$$;

-- Create: sandbox, operation (kind create, running, owned by p_owner until its
-- lease ends) and idempotency key in one synchronous commit. Resources that
-- are NULL come from the release's defaults.
-- outcome: created | replay. manifest is the release's, for the node.
-- Raises CA001, CA002, CA004, CA005 (p_node is NULL: the caller found none, and
-- this is no replay), CA429.
CREATE FUNCTION caisson.sandbox_create(p_tenant text, p_project text,
	p_id text, p_op text, p_name text, p_template text, p_labels jsonb,
	p_env jsonb, p_vcpus integer, p_memory_mib integer,
	p_disk_mib integer, p_ttl_s bigint, p_on_expiry text,
	p_isolation text, p_node text, p_owner text, p_lease_s integer,
	p_deadline_s integer, p_by text, p_trace text, p_route text,
	p_idem text, p_body_hmac_hex text)
RETURNS TABLE (outcome text, sandbox json, operation json, generation bigint,
	fence bigint, release text, manifest json, vcpus integer,
	memory_mib integer, disk_mib integer)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	s caisson.sandboxes;
	o caisson.operations;
	r caisson.template_releases;
	d jsonb;
	known caisson.idempotency_keys;
BEGIN
	PERFORM caisson.scope(p_tenant);
	known := caisson.idem_begin(p_tenant, p_project, 'POST', p_route,
		p_idem, p_body_hmac_hex, p_op, p_id);
	IF known.object IS NOT NULL THEN
		SELECT * INTO s FROM caisson.sandboxes x
			WHERE x.id = known.object AND x.project = p_project;
		SELECT * INTO o FROM caisson.operations x
			WHERE x.id = known.operation AND x.project = p_project;
		RETURN QUERY SELECT 'replay', caisson.sandbox_json(s),
			caisson.operation_json(o), s.generation, s.fence,
			s.release, NULL::json, s.vcpus, s.memory_mib,
			s.disk_mib;
		RETURN;
	END IF;
	r := caisson.release_find(p_project, p_template);
	IF r.digest IS NULL THEN
		RAISE EXCEPTION 'template % unknown', p_template
			USING ERRCODE = 'CA004';
	END IF;
	IF p_node IS NULL THEN
		RAISE EXCEPTION 'no node for it' USING ERRCODE = 'CA005';
	END IF;
	d := coalesce(r.manifest -> 'defaults', '{}');
	IF EXISTS (SELECT FROM caisson.tenants t WHERE t.id = p_tenant
		AND t.deleted_at IS NOT NULL) THEN
		RAISE EXCEPTION 'tenant deleted' USING ERRCODE = 'CA404';
	END IF;
	PERFORM caisson.quota_check(p_project,
		coalesce(p_vcpus, (d ->> 'vcpus')::integer, 1),
		coalesce(p_memory_mib, (d ->> 'memory_mib')::integer, 512),
		coalesce(p_disk_mib, (d ->> 'disk_mib')::integer, 2048));
	INSERT INTO caisson.sandboxes (id, tenant, project, name, labels, env,
		template, release, vcpus, memory_mib, disk_mib, ttl_s,
		on_expiry, ends_at, desired, observed, activity, node,
		isolation_demand, last_op_seq, created_by)
	VALUES (p_id, p_tenant, p_project, p_name, p_labels, p_env,
		CASE WHEN p_template LIKE 'sha256:%' THEN r.template
			ELSE split_part(p_template, ':', 1) END,
		r.digest,
		coalesce(p_vcpus, (d ->> 'vcpus')::integer, 1),
		coalesce(p_memory_mib, (d ->> 'memory_mib')::integer, 512),
		coalesce(p_disk_mib, (d ->> 'disk_mib')::integer, 2048),
		p_ttl_s, p_on_expiry, now() + p_ttl_s * interval '1 second',
		'running', 'pending', 'create', p_node, p_isolation, 1, p_by)
	ON CONFLICT (project, name) WHERE name IS NOT NULL
		AND observed NOT IN ('ended', 'failed', 'lost') DO NOTHING
	RETURNING * INTO s;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'name % taken', p_name USING ERRCODE = 'CA001';
	END IF;
	INSERT INTO caisson.operations (id, tenant, project, kind, intent,
		state, sandbox, sandbox_seq, generation, template, node,
		created_by, trace, owner, lease_until, attempts, deadline,
		started_at)
	VALUES (p_op, p_tenant, p_project, 'create', true, 'running', p_id, 1,
		1, s.template, p_node, p_by, p_trace, p_owner,
		now() + p_lease_s * interval '1 second', 1,
		now() + p_deadline_s * interval '1 second', now())
	RETURNING * INTO o;
	RETURN QUERY SELECT 'created', caisson.sandbox_json(s),
		caisson.operation_json(o), s.generation, s.fence, s.release,
		r.manifest::json, s.vcpus, s.memory_mib, s.disk_mib;
END $$;

-- What a request about one sandbox needs to know. No row: not found.
CREATE FUNCTION caisson.sandbox_get(p_tenant text, p_project text, p_ref text)
RETURNS TABLE (sandbox json, id text, observed text, desired text, node text,
	env json, defaults json, end_reason text, end_detail text,
	generation bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	s caisson.sandboxes;
	m jsonb;
BEGIN
	PERFORM caisson.scope(p_tenant);
	s := caisson.sandbox_find(p_project, p_ref);
	IF s.id IS NULL THEN
		RETURN;
	END IF;
	SELECT r.manifest INTO m FROM caisson.template_releases r
		WHERE r.digest = s.release LIMIT 1;
	RETURN QUERY SELECT caisson.sandbox_json(s), s.id, s.observed,
		s.desired, s.node, s.env::json, (m -> 'defaults')::json,
		s.end_reason, s.end_detail, s.generation;
END $$;

-- Filters that are NULL do not filter. p_states: one of them (an empty array
-- finds nothing). p_labels: all must be there and equal.
CREATE FUNCTION caisson.sandbox_list(p_tenant text, p_project text,
	p_after bigint, p_limit integer, p_states text[], p_labels jsonb,
	p_template text, p_created_after timestamptz)
RETURNS TABLE (seq bigint, item json)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	RETURN QUERY SELECT s.seq, caisson.sandbox_json(s)
		FROM caisson.sandboxes s
		WHERE s.project = p_project
		  AND (p_after IS NULL OR s.seq < p_after)
		  AND (p_states IS NULL
			OR caisson.sandbox_state(s) = ANY (p_states))
		  AND (p_labels IS NULL OR s.labels @> p_labels)
		  AND (p_template IS NULL OR s.template = p_template)
		  AND (p_created_after IS NULL
			OR s.created_at > p_created_after)
		ORDER BY s.seq DESC LIMIT p_limit;
END $$;

-- Change what needs no node. p_labels: merged into the labels; a NULL value
-- removes its label. p_has_ttl: the end is p_ttl_s from now, or never if that
-- is NULL. No change at all makes no new generation. Raises CA404, CA412, CA003
-- (final, or being ended), CA010 (more than p_max_labels).
CREATE FUNCTION caisson.sandbox_update(p_tenant text, p_project text,
	p_ref text, p_if_match bigint, p_labels jsonb, p_max_labels integer,
	p_has_ttl boolean, p_ttl_s bigint, p_on_expiry text)
RETURNS TABLE (generation bigint, sandbox json)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	s caisson.sandboxes;
	v_labels jsonb;
BEGIN
	PERFORM caisson.scope(p_tenant);
	s := caisson.sandbox_find(p_project, p_ref);
	SELECT * INTO s FROM caisson.sandboxes x WHERE x.id = s.id FOR UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'no sandbox %', p_ref USING ERRCODE = 'CA404';
	END IF;
	PERFORM caisson.if_match(s.generation, p_if_match);
	IF caisson.is_final(s.observed) OR s.desired = 'deleted' THEN
		RAISE EXCEPTION '%', caisson.sandbox_state(s)
			USING ERRCODE = 'CA003';
	END IF;
	v_labels := jsonb_strip_nulls(s.labels
		|| coalesce(p_labels, '{}'::jsonb));
	IF (SELECT count(*) FROM jsonb_object_keys(v_labels))
			> p_max_labels THEN
		RAISE EXCEPTION 'labels' USING ERRCODE = 'CA010';
	END IF;
	IF v_labels <> s.labels OR p_has_ttl
			OR coalesce(p_on_expiry, s.on_expiry) <> s.on_expiry
	THEN
		UPDATE caisson.sandboxes x
			SET labels = v_labels,
			    ttl_s = CASE WHEN p_has_ttl THEN p_ttl_s
				ELSE x.ttl_s END,
			    ends_at = CASE WHEN p_has_ttl
				THEN now() + p_ttl_s * interval '1 second'
				ELSE x.ends_at END,
			    on_expiry = coalesce(p_on_expiry, x.on_expiry),
			    generation = x.generation + 1,
			    -- nobody has to do anything about it
			    observed_generation = CASE
				WHEN x.observed_generation = x.generation
				THEN x.generation + 1
				ELSE x.observed_generation END,
			    updated_at = now()
			WHERE x.id = s.id RETURNING * INTO s;
	END IF;
	RETURN QUERY SELECT s.generation, caisson.sandbox_json(s);
END $$;

-- The wish to end, from any state. The row must be held FOR UPDATE by this
-- transaction. Supersedes every active intent of the sandbox. Internal to
-- sandbox_end() and sandbox_expire().
CREATE FUNCTION caisson.end_locked(s caisson.sandboxes, p_op text,
	p_reason text, p_by text, p_trace text, p_owner text,
	p_lease_s integer, p_deadline_s integer)
RETURNS caisson.operations
LANGUAGE plpgsql AS $$
DECLARE
	o caisson.operations;
BEGIN
	UPDATE caisson.operations x
		SET state = 'cancelled', superseded_by = p_op,
		    finished_at = now(), owner = NULL
		WHERE x.sandbox = s.id AND x.intent
		  AND x.state IN ('pending', 'running');
	UPDATE caisson.sandboxes x
		SET desired = 'deleted', generation = x.generation + 1,
		    activity = 'end', last_op_seq = x.last_op_seq + 1,
		    updated_at = now()
		WHERE x.id = s.id RETURNING * INTO s;
	INSERT INTO caisson.operations (id, tenant, project, kind, intent,
		state, sandbox, sandbox_seq, generation, template, node,
		reason, created_by, trace, owner, lease_until, attempts,
		deadline, started_at)
	VALUES (p_op, s.tenant, s.project, 'end', true,
		CASE WHEN p_owner IS NULL THEN 'pending' ELSE 'running' END,
		s.id, s.last_op_seq, s.generation, s.template, s.node,
		p_reason, p_by, p_trace, p_owner,
		now() + p_lease_s * interval '1 second',
		CASE WHEN p_owner IS NULL THEN 0 ELSE 1 END,
		now() + p_deadline_s * interval '1 second',
		CASE WHEN p_owner IS NULL THEN NULL ELSE now() END)
	RETURNING * INTO o;
	RETURN o;
END $$;

-- outcome: accepted (the caller owns the operation and tells the node) |
-- joined (an end is under way) | already (final) | replay. operation is NULL
-- only for a final sandbox that nobody ended. p_if_match counts while there is
-- something to end. Raises CA404, CA002, CA412.
CREATE FUNCTION caisson.sandbox_end(p_tenant text, p_project text, p_ref text,
	p_op text, p_reason text, p_by text, p_trace text, p_owner text,
	p_lease_s integer, p_deadline_s integer, p_route text, p_idem text,
	p_body_hmac_hex text, p_if_match bigint DEFAULT NULL)
RETURNS TABLE (outcome text, sandbox json, operation json, id text,
	generation bigint, fence bigint, node text, op text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	s caisson.sandboxes;
	o caisson.operations;
	known caisson.idempotency_keys;
	what text;
BEGIN
	PERFORM caisson.scope(p_tenant);
	s := caisson.sandbox_find(p_project, p_ref);
	SELECT * INTO s FROM caisson.sandboxes x WHERE x.id = s.id FOR UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'no sandbox %', p_ref USING ERRCODE = 'CA404';
	END IF;
	known := caisson.idem_begin(p_tenant, p_project, 'DELETE', p_route,
		p_idem, p_body_hmac_hex, p_op, s.id);
	IF known.object IS NOT NULL THEN
		what := 'replay';
		SELECT * INTO s FROM caisson.sandboxes x
			WHERE x.id = known.object AND x.project = p_project;
		SELECT * INTO o FROM caisson.operations x
			WHERE x.sandbox = known.object AND x.kind = 'end'
			ORDER BY x.seq DESC LIMIT 1;
	ELSIF caisson.is_final(s.observed) OR s.desired = 'deleted' THEN
		what := CASE WHEN caisson.is_final(s.observed) THEN 'already'
			ELSE 'joined' END;
		SELECT * INTO o FROM caisson.operations x
			WHERE x.sandbox = s.id AND x.kind = 'end'
			ORDER BY x.seq DESC LIMIT 1;
	ELSE
		PERFORM caisson.if_match(s.generation, p_if_match);
		what := 'accepted';
		o := caisson.end_locked(s, p_op, p_reason, p_by, p_trace,
			p_owner, p_lease_s, p_deadline_s);
		SELECT * INTO s FROM caisson.sandboxes x WHERE x.id = s.id;
	END IF;
	RETURN QUERY SELECT what, caisson.sandbox_json(s),
		CASE WHEN o.id IS NOT NULL THEN caisson.operation_json(o) END,
		s.id, s.generation, s.fence, s.node, o.id;
END $$;

-- What the node answered to operation p_op of generation p_generation.
-- p_observed: running | ended | failed. Commits synchronously: a state that a
-- client was told must not be taken back by a crash of the database. Ignored
-- (applied = false) when the sandbox has moved on: it is final already, or the
-- operation is over (a newer wish superseded it). A change of labels in between
-- raises the record's generation, and does not count. Used by the API (with its tenant) and by the controller (with
-- p_tenant NULL). Always answers with the rows as they are now.
CREATE FUNCTION caisson.sandbox_observe(p_tenant text, p_op text,
	p_generation bigint, p_observed text, p_level text, p_engine text,
	p_reason text, p_error jsonb, p_timings jsonb)
RETURNS TABLE (applied boolean, sandbox json, operation json)
LANGUAGE plpgsql AS $$
DECLARE
	s caisson.sandboxes;
	o caisson.operations;
	fresh boolean;
BEGIN
	PERFORM caisson.scope(coalesce(p_tenant, ''));
	SELECT * INTO o FROM caisson.operations x WHERE x.id = p_op;
	SELECT * INTO s FROM caisson.sandboxes x WHERE x.id = o.sandbox
		FOR UPDATE;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	-- o is read again: whoever superseded it held the sandbox's row
	SELECT * INTO o FROM caisson.operations x WHERE x.id = p_op;
	fresh := o.generation = p_generation
		AND o.state IN ('pending', 'running')
		AND NOT caisson.is_final(s.observed);
	IF fresh THEN
		UPDATE caisson.operations x
			SET state = CASE WHEN p_observed = 'failed'
				THEN 'failed' ELSE 'succeeded' END,
			    error = p_error, timings = p_timings,
			    finished_at = now(), owner = NULL
			WHERE x.id = p_op AND x.state IN ('pending', 'running');
		UPDATE caisson.sandboxes x
			SET observed = p_observed, activity = NULL,
			    observed_generation = x.generation,
			    isolation_level =
				coalesce(p_level, x.isolation_level),
			    isolation_engine =
				coalesce(p_engine, x.isolation_engine),
			    isolation_reason =
				coalesce(p_reason, x.isolation_reason),
			    started_at = CASE WHEN p_observed = 'running'
				THEN coalesce(x.started_at, now())
				ELSE x.started_at END,
			    end_at = CASE WHEN caisson.is_final(p_observed)
				THEN now() END,
			    end_reason = CASE p_observed
				WHEN 'ended' THEN coalesce(o.reason, 'request')
				WHEN 'failed' THEN 'error' END,
			    end_detail = CASE WHEN p_observed = 'failed'
				THEN p_error ->> 'message' END,
			    updated_at = now()
			WHERE x.id = s.id;
	END IF;
	SELECT * INTO s FROM caisson.sandboxes x WHERE x.id = s.id;
	SELECT * INTO o FROM caisson.operations x WHERE x.id = p_op;
	RETURN QUERY SELECT fresh, caisson.sandbox_json(s),
		caisson.operation_json(o);
END $$;

-- ---- operations ----

-- With the sandbox as it is now, if the operation has one. No row: not found.
CREATE FUNCTION caisson.operation_get(p_tenant text, p_project text, p_op text)
RETURNS TABLE (state text, operation json, sandbox json)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	RETURN QUERY SELECT o.state, caisson.operation_json(o),
		CASE WHEN s.id IS NOT NULL THEN caisson.sandbox_json(s) END
		FROM caisson.operations o
		LEFT JOIN caisson.sandboxes s ON s.id = o.sandbox
		WHERE o.id = p_op AND o.project = p_project;
END $$;

CREATE FUNCTION caisson.operation_list(p_tenant text, p_project text,
	p_after bigint, p_limit integer, p_states text[], p_sandbox text,
	p_kinds text[], p_template text)
RETURNS TABLE (seq bigint, item json)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	RETURN QUERY SELECT o.seq, caisson.operation_json(o)
		FROM caisson.operations o
		WHERE o.project = p_project
		  AND (p_after IS NULL OR o.seq < p_after)
		  AND (p_states IS NULL OR o.state = ANY (p_states))
		  AND (p_sandbox IS NULL OR o.sandbox = p_sandbox)
		  AND (p_kinds IS NULL OR o.kind = ANY (p_kinds))
		  AND (p_template IS NULL OR o.template = p_template)
		ORDER BY o.seq DESC LIMIT p_limit;
END $$;

-- Take an operation back, if it is not too late. A create that is not done is
-- cancelled by the wish to end (outcome ending: the caller owns end_op and tells
-- the node); a build is given up (cancelled); what was cancelled already is
-- (already). Raises CA404, CA003 with the state, or `end`: an end is not taken
-- back.
CREATE FUNCTION caisson.operation_cancel(p_tenant text, p_project text,
	p_op text, p_end_op text, p_by text, p_trace text, p_owner text,
	p_lease_s integer, p_deadline_s integer)
RETURNS TABLE (outcome text, operation json, sandbox json, sandbox_id text,
	generation bigint, fence bigint, node text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	o caisson.operations;
	s caisson.sandboxes;
	what text := 'cancelled';
BEGIN
	PERFORM caisson.scope(p_tenant);
	SELECT * INTO o FROM caisson.operations x
		WHERE x.id = p_op AND x.project = p_project;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'no operation %', p_op USING ERRCODE = 'CA404';
	END IF;
	-- the sandbox first, as everywhere
	SELECT * INTO s FROM caisson.sandboxes x
		WHERE x.id = o.sandbox FOR UPDATE;
	SELECT * INTO o FROM caisson.operations x
		WHERE x.id = p_op FOR UPDATE;
	IF o.state = 'cancelled' THEN
		what := 'already';
	ELSIF o.state NOT IN ('pending', 'running') OR o.kind = 'end' THEN
		RAISE EXCEPTION '%', CASE WHEN o.finished_at IS NULL
			THEN 'end' ELSE o.state END USING ERRCODE = 'CA003';
	ELSIF o.kind = 'create' THEN
		what := 'ending';
		PERFORM caisson.end_locked(s, p_end_op, 'request', p_by,
			p_trace, p_owner, p_lease_s, p_deadline_s);
		SELECT * INTO s FROM caisson.sandboxes x WHERE x.id = s.id;
	ELSE
		UPDATE caisson.operations x
			SET state = 'cancelled', finished_at = now(),
			    owner = NULL
			WHERE x.id = p_op;
	END IF;
	SELECT * INTO o FROM caisson.operations x WHERE x.id = p_op;
	RETURN QUERY SELECT what, caisson.operation_json(o),
		CASE WHEN s.id IS NOT NULL THEN caisson.sandbox_json(s) END,
		s.id, s.generation, s.fence, s.node;
END $$;

-- Of these (a text array literal), those that are finished or gone: for
-- waiters in one sweep. Runs as owner and tells nothing but that.
CREATE FUNCTION caisson.operations_finished(p_ids text[])
RETURNS TABLE (id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
	SELECT i FROM unnest(p_ids) AS i
	LEFT JOIN caisson.operations o ON o.id = i
	WHERE o.id IS NULL OR o.finished_at IS NOT NULL
$$;

-- The owner is alive: prolong the lease of all that it works on.
CREATE FUNCTION caisson.operations_renew(p_owner text, p_lease_s integer)
RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path = caisson, pg_temp
AS $$
	SELECT set_config('synchronous_commit', 'off', true);
	WITH u AS (UPDATE caisson.operations o
		SET lease_until = now() + p_lease_s * interval '1 second'
		WHERE o.owner = p_owner AND o.state = 'running'
		RETURNING 1)
	SELECT count(*)::integer FROM u
$$;

-- The owner cannot say how it ended (a node that does not answer): whoever
-- claims next goes on, not before p_delay_s.
CREATE FUNCTION caisson.operation_release(p_op text, p_owner text,
	p_delay_s integer)
RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = caisson, pg_temp
AS $$
	SELECT set_config('synchronous_commit', 'off', true);
	UPDATE caisson.operations o
		SET owner = NULL, state = 'pending',
		    lease_until = now() + p_delay_s * interval '1 second'
		WHERE o.id = p_op AND o.owner = p_owner AND o.state = 'running'
$$;

-- ---- templates ----

CREATE FUNCTION caisson.template_json(t caisson.templates) RETURNS json
LANGUAGE sql STABLE AS $$
	SELECT json_build_object('name', t.name, 'public', t.public,
		'project', t.project, 'generation', t.generation,
		'release', (SELECT g.release FROM caisson.tags g
			WHERE g.project = t.project AND g.template = t.name
			  AND g.tag = 'latest'),
		'tags', (SELECT coalesce(json_object_agg(g.tag, g.release),
				'{}') FROM caisson.tags g
			WHERE g.project = t.project AND g.template = t.name),
		'created_at', caisson.ts(t.created_at))
$$;

CREATE FUNCTION caisson.template_list(p_tenant text, p_project text,
	p_after bigint, p_limit integer)
RETURNS TABLE (seq bigint, item json)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	RETURN QUERY SELECT t.seq, caisson.template_json(t)
		FROM caisson.templates t
		WHERE (t.project = p_project OR t.public)
		  AND (p_after IS NULL OR t.seq < p_after)
		ORDER BY t.seq DESC LIMIT p_limit;
END $$;

-- NULL if there is none of this name here.
CREATE FUNCTION caisson.template_get(p_tenant text, p_project text,
	p_name text)
RETURNS TABLE (generation bigint, template json)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	RETURN QUERY SELECT t.generation, caisson.template_json(t)
		FROM caisson.templates t
		WHERE t.name = p_name AND (t.project = p_project OR t.public)
		ORDER BY t.project <> p_project LIMIT 1;
END $$;

-- A name that a public template of somebody else has cannot be taken: what
-- people mean by it stays what it was. Raises CA001. Row security must show
-- public templates.
CREATE FUNCTION caisson.template_name_free(p_project text, p_name text)
RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
	IF EXISTS (SELECT FROM caisson.templates t WHERE t.name = p_name
		AND t.public AND t.project <> p_project) THEN
		RAISE EXCEPTION 'public' USING ERRCODE = 'CA001';
	END IF;
END $$;

-- An empty one. Raises CA001 (message: mine | public).
CREATE FUNCTION caisson.template_create(p_tenant text, p_project text,
	p_name text, p_public boolean)
RETURNS TABLE (generation bigint, template json)
LANGUAGE plpgsql AS $$
DECLARE
	t caisson.templates;
BEGIN
	PERFORM caisson.scope(p_tenant);
	PERFORM caisson.template_name_free(p_project, p_name);
	INSERT INTO caisson.templates (tenant, project, name, public)
		VALUES (p_tenant, p_project, p_name, p_public)
		ON CONFLICT DO NOTHING RETURNING * INTO t;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'mine' USING ERRCODE = 'CA001';
	END IF;
	RETURN QUERY SELECT t.generation, caisson.template_json(t);
END $$;

-- Living sandboxes of releases of this template: how many in all, and up to
-- ten ids of those of p_project. Runs as owner: a public template has users
-- elsewhere, of which only the number is told.
CREATE FUNCTION caisson.template_users(p_project text, p_template text)
RETURNS TABLE (n bigint, mine text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
	WITH u AS (SELECT s.id, s.project FROM caisson.sandboxes s
		WHERE s.observed NOT IN ('ended', 'failed', 'lost')
		  AND s.release IN (SELECT r.digest
			FROM caisson.template_releases r
			WHERE r.project = p_project
			  AND r.template = p_template))
	SELECT (SELECT count(*) FROM u), (SELECT string_agg(x.id, ' ')
		FROM (SELECT u.id FROM u WHERE u.project = p_project
			ORDER BY u.id LIMIT 10) x)
$$;

-- Its tags go with it; its releases stay, reachable by digest. Returns the last
-- record. Raises CA404, CA412, CA007 (`N ID…`: living sandboxes; or `build`).
CREATE FUNCTION caisson.template_delete(p_tenant text, p_project text,
	p_name text, p_if_match bigint)
RETURNS json
LANGUAGE plpgsql AS $$
DECLARE
	t caisson.templates;
	u record;
	v_json json;
BEGIN
	PERFORM caisson.scope(p_tenant);
	SELECT * INTO t FROM caisson.templates x
		WHERE x.project = p_project AND x.name = p_name FOR UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'no template' USING ERRCODE = 'CA404';
	END IF;
	PERFORM caisson.if_match(t.generation, p_if_match);
	SELECT * INTO u FROM caisson.template_users(p_project, p_name);
	IF u.n > 0 THEN
		RAISE EXCEPTION '% %', u.n, coalesce(u.mine, '')
			USING ERRCODE = 'CA007';
	END IF;
	IF EXISTS (SELECT FROM caisson.operations o
		WHERE o.project = p_project AND o.template = p_name
		  AND o.kind = 'template_build'
		  AND o.state IN ('pending', 'running')) THEN
		RAISE EXCEPTION 'build' USING ERRCODE = 'CA007';
	END IF;
	v_json := caisson.template_json(t);
	DELETE FROM caisson.templates x
		WHERE x.project = p_project AND x.name = p_name;
	RETURN v_json;
END $$;

-- Move or make a tag. p_if_match: the template's generation. Only the project
-- itself moves its tags, and only to a release of its own. Raises CA404, CA412,
-- CA006.
CREATE FUNCTION caisson.tag_put(p_tenant text, p_project text, p_name text,
	p_tag text, p_release text, p_if_match bigint)
RETURNS TABLE (generation bigint, template json)
LANGUAGE plpgsql AS $$
DECLARE
	t caisson.templates;
BEGIN
	PERFORM caisson.scope(p_tenant);
	SELECT * INTO t FROM caisson.templates x
		WHERE x.project = p_project AND x.name = p_name FOR UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'no template' USING ERRCODE = 'CA404';
	END IF;
	PERFORM caisson.if_match(t.generation, p_if_match);
	PERFORM FROM caisson.template_releases r
		WHERE r.project = p_project AND r.digest = p_release
		  AND r.template = p_name;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'no release' USING ERRCODE = 'CA006';
	END IF;
	PERFORM caisson.tag_set(p_tenant, p_project, p_name, p_tag, p_release);
	SELECT * INTO t FROM caisson.templates x
		WHERE x.project = p_project AND x.name = p_name;
	RETURN QUERY SELECT t.generation, caisson.template_json(t);
END $$;

-- Raises CA404 (message: template | tag), CA412.
CREATE FUNCTION caisson.tag_delete(p_tenant text, p_project text, p_name text,
	p_tag text, p_if_match bigint)
RETURNS TABLE (generation bigint, template json)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	t caisson.templates;
BEGIN
	PERFORM caisson.scope(p_tenant);
	SELECT * INTO t FROM caisson.templates x
		WHERE x.project = p_project AND x.name = p_name FOR UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'template' USING ERRCODE = 'CA404';
	END IF;
	PERFORM caisson.if_match(t.generation, p_if_match);
	DELETE FROM caisson.tags g WHERE g.project = p_project
		AND g.template = p_name AND g.tag = p_tag;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'tag' USING ERRCODE = 'CA404';
	END IF;
	UPDATE caisson.templates x SET generation = x.generation + 1
		WHERE x.project = p_project AND x.name = p_name
		RETURNING * INTO t;
	RETURN QUERY SELECT t.generation, caisson.template_json(t);
END $$;

CREATE FUNCTION caisson.release_get(p_tenant text, p_project text,
	p_digest text)
RETURNS json
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	RETURN (SELECT json_build_object('digest', r.digest,
			'template', r.template, 'public', r.public,
			'manifest', r.manifest, 'created_by', r.created_by,
			'created_at', caisson.ts(r.created_at))
		FROM caisson.template_releases r
		WHERE r.digest = p_digest
		  AND (r.project = p_project OR r.public)
		ORDER BY r.project <> p_project LIMIT 1);
END $$;

-- Register the immutable release (again is the same) and its template, and an
-- operation of kind template_build that waits for the node. The tag moves in
-- build_finish(). outcome: created | replay. Raises CA001, CA002.
CREATE FUNCTION caisson.build_start(p_tenant text, p_project text, p_op text,
	p_template text, p_digest text, p_manifest jsonb, p_node text,
	p_public boolean, p_owner text, p_lease_s integer,
	p_deadline_s integer, p_by text, p_trace text, p_route text,
	p_idem text, p_body_hmac_hex text)
RETURNS TABLE (outcome text, operation json, release json)
LANGUAGE plpgsql AS $$
DECLARE
	o caisson.operations;
	known caisson.idempotency_keys;
BEGIN
	PERFORM caisson.scope(p_tenant);
	known := caisson.idem_begin(p_tenant, p_project, 'POST', p_route,
		p_idem, p_body_hmac_hex, p_op, p_digest);
	IF known.operation IS NOT NULL THEN
		SELECT * INTO o FROM caisson.operations x
			WHERE x.id = known.operation AND x.project = p_project;
		RETURN QUERY SELECT 'replay', caisson.operation_json(o),
			caisson.release_get(p_tenant, p_project, p_digest);
		RETURN;
	END IF;
	PERFORM caisson.template_name_free(p_project, p_template);
	INSERT INTO caisson.templates (tenant, project, name, public)
		VALUES (p_tenant, p_project, p_template, p_public)
		ON CONFLICT DO NOTHING;
	INSERT INTO caisson.template_releases (tenant, project, digest,
		manifest, template, public, created_by)
		VALUES (p_tenant, p_project, p_digest, p_manifest, p_template,
			p_public, p_by)
		ON CONFLICT DO NOTHING;
	INSERT INTO caisson.operations (id, tenant, project, kind, intent,
		state, template, node, request, progress, created_by, trace,
		owner, lease_until, attempts, deadline, started_at)
	VALUES (p_op, p_tenant, p_project, 'template_build', false, 'running',
		p_template, p_node,
		jsonb_build_object('release', p_digest, 'tag', 'latest'),
		'{"phase":"registered"}', p_by, p_trace, p_owner,
		now() + p_lease_s * interval '1 second', 1,
		now() + p_deadline_s * interval '1 second', now())
	RETURNING * INTO o;
	RETURN QUERY SELECT 'created', caisson.operation_json(o),
		caisson.release_get(p_tenant, p_project, p_digest);
END $$;

-- Progress as the node told it; {phase, done, total, unit}.
CREATE FUNCTION caisson.operation_progress(p_op text, p_progress jsonb)
RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = caisson, pg_temp
AS $$
	SELECT set_config('synchronous_commit', 'off', true);
	UPDATE caisson.operations o SET progress = p_progress
		WHERE o.id = p_op AND o.state = 'running'
$$;

-- p_error NULL: the node is ready, the tag moves in the same transaction.
-- p_tenant NULL: called by the controller. NULL if no such build is active.
CREATE FUNCTION caisson.build_finish(p_tenant text, p_op text, p_error jsonb)
RETURNS json
LANGUAGE plpgsql AS $$
DECLARE
	o caisson.operations;
BEGIN
	PERFORM caisson.scope(coalesce(p_tenant, ''));
	UPDATE caisson.operations x
		SET state = CASE WHEN p_error IS NULL THEN 'succeeded'
			ELSE 'failed' END,
		    error = p_error, finished_at = now(), owner = NULL,
		    progress = CASE WHEN p_error IS NULL
			THEN '{"phase":"ready"}' ELSE x.progress END
		WHERE x.id = p_op AND x.kind = 'template_build'
		  AND x.state IN ('pending', 'running')
		RETURNING * INTO o;
	IF NOT FOUND THEN
		RETURN NULL;
	END IF;
	IF p_error IS NULL THEN
		PERFORM caisson.tag_set(o.tenant, o.project, o.template,
			o.request ->> 'tag', o.request ->> 'release');
	END IF;
	RETURN caisson.operation_json(o);
END $$;

-- Move a tag, atomically; made if absent. Returns its new generation, NULL if
-- the template is gone. The template's generation rises with it.
CREATE FUNCTION caisson.tag_set(p_tenant text, p_project text,
	p_template text, p_tag text, p_release text)
RETURNS bigint
LANGUAGE sql AS $$
	UPDATE caisson.templates t SET generation = t.generation + 1
		WHERE t.project = p_project AND t.name = p_template;
	INSERT INTO caisson.tags AS g (tenant, project, template, tag, release,
		public)
	SELECT t.tenant, t.project, t.name, p_tag, p_release, t.public
		FROM caisson.templates t
		WHERE t.project = p_project AND t.name = p_template
	ON CONFLICT (project, template, tag) DO UPDATE
		SET release = excluded.release, generation = g.generation + 1,
		    moved_at = now()
	RETURNING g.generation
$$;

-- ---- nodes, cluster, whoami ----

CREATE FUNCTION caisson.node_json(n caisson.nodes) RETURNS json
LANGUAGE sql STABLE AS $$
	SELECT json_build_object('name', n.name, 'state', n.state,
		'alive', n.lease_until > now(),
		'version', n.version, 'incarnation', n.incarnation,
		'engine', json_build_object('name', n.engine,
			'isolation', n.isolation, 'reason', n.reason),
		'capacity', json_build_object('slots', n.slots,
			'memory_mib', n.memory_mib, 'vcpus', n.vcpus),
		'used', json_build_object('sandboxes', n.used_sandboxes,
			'slots', n.used_slots,
			'memory_mib', n.used_memory_mib),
		'waiting_vmms', n.waiting_vmms,
		'heartbeat_at', caisson.ts(n.heartbeat_at),
		'created_at', caisson.ts(n.created_at))
$$;

-- Every node with where to reach it (API and controller).
CREATE FUNCTION caisson.node_list()
RETURNS TABLE (name text, rpc text, data text, state text, alive boolean,
	incarnation text, item json)
LANGUAGE sql STABLE AS $$
	SELECT n.name, n.rpc, n.data, n.state, n.lease_until > now(),
		n.incarnation, caisson.node_json(n)
	FROM caisson.nodes n ORDER BY n.name
$$;

-- Once per API process: epoch and the key of idempotency hashes (hex).
CREATE FUNCTION caisson.api_hello()
RETURNS TABLE (epoch bigint, secret text, schema_version integer)
LANGUAGE sql STABLE AS $$
	SELECT c.epoch, encode(c.secret, 'hex'),
		(SELECT max(m.version) FROM caisson.schema_migrations m)
	FROM caisson.cluster c
$$;

CREATE FUNCTION caisson.whoami(p_tenant text, p_project text)
RETURNS TABLE (tenant json, project json, quotas json)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	RETURN QUERY SELECT
		json_build_object('id', t.id, 'name', t.name),
		json_build_object('id', p.id, 'name', p.name),
		caisson.quota_json(p.id)
		FROM caisson.projects p JOIN caisson.tenants t
			ON t.id = p.tenant
		WHERE p.id = p_project;
END $$;

RESET ROLE;
